"""Checks of time: who held an action when, whether all work was finished, and how soon the rate recovered after a fault."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from uuid import UUID

from headrace.prove.checks.result import CheckResult, Findings, Violation, check, check_result
from headrace.prove.evidence import Evidence, FaultRecord, HandlerEnded, HandlerStarted, Sample

LEASE_FAULTS = frozenset(
    {"stop-node", "kill-node", "kill-server", "restart-server", "kill-backends", "cut", "delay", "exhaust", "clock", "failpoint",
     "step", "disk-full", "shard-down", "blackhole"}
)  # fmt: skip
"""Faults during which a lease may end while its handler runs: its node cannot extend it, or is dead."""
SETTLED_S = 12.0
"""How long after such a fault two nodes may still hold one action: a lease, and the handlers that started meanwhile."""
RECOVERED = 0.95
RECOVER_S = 30.0
BEFORE_S = 20.0
"""The rate before a fault is measured over this time, without the time in which the work of an earlier fault was caught up."""
CATCH_UP_S = 5.0
WINDOW_S = 8.0
"""The rate has recovered with the first window that has it. In a shorter window a few late batches, handled at once, look like
a rate."""
MEASURED_S = 6.0
"""A rate over less time than this is not a rate."""
BACKLOG_S = 2.0
"""Backlog allowed at the end, in seconds of the rate before; a larger one is growing."""
CONTINUES = 0.5
"""Share of its rate that a shard keeps at least while another is down; the rest is what the machine does meanwhile."""
APART_S = 2.0
"""Time between the end of a fault and the next one for the rate between them to be a usual one."""
JUDGE_S = 20.0
"""If the rate had not recovered before the next fault: a violation only if there was this much time."""


class Excuses:
    """The times of some faults, from a moment before them until their consequences are over."""

    def __init__(self, evidence: Evidence, kinds: frozenset[str]) -> None:
        faults = sorted((fault for fault in evidence.faults if fault.fault in kinds), key=lambda fault: fault.started_at)
        self._starts = [fault.started_at - 1 for fault in faults]
        self._ends = list(accumulate((fault.healed_at + SETTLED_S for fault in faults), max))

    def cover(self, at: float) -> bool:
        begun = bisect_right(self._starts, at)
        return begun > 0 and at <= self._ends[begun - 1]


@check("at most one valid lease")
def one_holder(evidence: Evidence) -> Findings:
    """No two nodes handle one action at the same time, except after faults that keep a node from extending its lease."""
    held = _handling_times(evidence)
    excuses = Excuses(evidence, LEASE_FAULTS)
    for action_id, times in held.items():
        for (start, end, node), (other_start, _, other_node) in pairwise(sorted(times)):
            if other_node != node and other_start < end and not excuses.cover(other_start):
                example = (
                    f"{node} held {action_id} from {start:.3f} to {end:.3f}",
                    f"{other_node} started at {other_start:.3f}",
                )
                yield Violation("two nodes handled one action at the same time", example)
    return sum(not excuses.cover(start) for times in held.values() for start, _, _ in times)


def _handling_times(evidence: Evidence) -> dict[UUID, list[tuple[float, float, str]]]:
    """Start, end and node of every handler call, by action."""
    started: dict[tuple[UUID, str, int], float] = {}
    held: dict[UUID, list[tuple[float, float, str]]] = defaultdict(list)
    for record in evidence.handler_records:
        attempt = (record.action_id, record.node, record.attempt)
        if isinstance(record, HandlerStarted):
            started[attempt] = record.at
        elif isinstance(record, HandlerEnded) and attempt in started:
            held[record.action_id].append((started.pop(attempt), record.at, record.node))
    return held


@check("after any fault the work goes on")
def all_work_finished(evidence: Evidence) -> Findings:
    """At the end no work is open: no event without position, no consumer behind, no action waiting, no timer due."""
    for kind, count in evidence.unfinished.items():
        if count:
            yield Violation("work was not finished", (f"{kind}: {count}",))
    return len(evidence.unfinished)


@check("a fault ends no node")
def processes_survive(evidence: Evidence) -> Findings:
    """No process of the product ends because a database, the network or a node is gone."""
    for reason in evidence.unexpected_exits:
        yield Violation("a process ended by itself", (reason,))
    return len(evidence.faults)


def rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Events handled per second, between samples."""
    return [
        (following.at, (following.consumed - sample.consumed) / (following.at - sample.at))
        for sample, following in pairwise(samples)
        if following.at > sample.at
    ]


class SampleSeries:
    """Rates and backlogs over parts of the samples."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._times = [sample.at for sample in samples]

    def between(self, start: float, end: float) -> Sequence[Sample]:
        return self._samples[bisect_left(self._times, start) : bisect_right(self._times, end)]

    def rate(self, start: float, end: float, *, measured_s: float = MEASURED_S, arrived: bool = False) -> float | None:
        """Events handled per second, or events that arrived; None if the samples cover less than `measured_s`."""
        samples = self.between(start, end)
        if len(samples) < 3 or samples[-1].at - samples[0].at < measured_s:
            return None
        events = samples[-1].consumed - samples[0].consumed + (samples[-1].lag - samples[0].lag if arrived else 0)
        return events / (samples[-1].at - samples[0].at)

    def recovery_s(self, start: float, end: float, wanted_per_s: float) -> float | None:
        """How long after `start` the first window with the wanted rate begins; None if none ends before `end`.

        As many events must arrive in it: working off a backlog is not the usual rate."""
        for sample in self.between(start, end - WINDOW_S):
            window = (sample.at, sample.at + WINDOW_S)
            if min(self.rate(*window) or 0.0, self.rate(*window, arrived=True) or 0.0) >= wanted_per_s:
                return sample.at - start
        return None

    def backlog(self, end: float) -> int:
        """The smallest lag in the seconds before `end`: some events are always on their way."""
        return min((sample.lag for sample in self.between(end - WINDOW_S / 2, end)), default=0)


@dataclass(frozen=True)
class Recovery:
    """A fault, the rate before it, how long after its healing the rate recovered, and the backlog when the time was up."""

    record: FaultRecord
    before_per_s: float | None
    wanted_per_s: float
    recovery_s: float | None
    backlog: int
    had_time: bool
    """True if the next fault left enough time to say that the rate did not recover."""

    @property
    def judged(self) -> bool:
        return self.before_per_s is not None and (self.had_time or self.recovery_s is not None)

    @property
    def is_late(self) -> bool:
        return self.judged and self.recovery_s is None

    @property
    def is_behind(self) -> bool:
        return self.judged and self.had_time and self.backlog > BACKLOG_S * (self.before_per_s or 0.0)


def recoveries(evidence: Evidence, *, margin: float) -> list[Recovery]:
    """The recovery from every fault, in the order of time."""
    series = SampleSeries(evidence.samples)
    faults = sorted(evidence.faults, key=lambda fault: fault.started_at)
    measured: list[Recovery] = []
    for index, fault in enumerate(faults):
        since = max(fault.started_at - BEFORE_S, faults[index - 1].healed_at + CATCH_UP_S if index else 0.0)
        next_at = faults[index + 1].started_at if index + 1 < len(faults) else evidence.producers_stopped_at
        until = min(fault.healed_at + RECOVER_S, next_at)
        before = series.rate(since, fault.started_at) or None
        wanted = (before or 0.0) * RECOVERED * (1 - margin)
        recovery_s = series.recovery_s(fault.healed_at, until, wanted) if before else None
        had_time = until - fault.healed_at >= JUDGE_S
        measured.append(Recovery(fault, before, wanted, recovery_s, series.backlog(until), had_time))
    return measured


def rate_returns(evidence: Evidence, *, margin: float = 0.0) -> CheckResult:
    """After each fault the rate is back at 95 % of the rate before within 30 s, and no backlog stays.

    The margin is for a machine with other users; the result states it."""
    measured = recoveries(evidence, margin=margin)
    judged = sum(recovery.judged for recovery in measured)
    violations: list[Violation] = []
    for recovery in measured:
        example = (
            f"{recovery.record.fault} healed at {recovery.record.healed_at:.1f}: before {recovery.before_per_s or 0:.0f}/s, "
            f"wanted {recovery.wanted_per_s:.0f}/s, backlog of {recovery.backlog} events at the end",
        )
        if recovery.is_late:
            violations.append(Violation(f"the rate was not back within {RECOVER_S:.0f} s", example))
        elif recovery.is_behind:
            violations.append(Violation(f"a backlog remained after {RECOVER_S:.0f} s", example))
    note = f"margin {margin:.0%}; {judged} of {len(measured)} faults left time to judge"
    return check_result("rate-returns", "after a fault the rate is back at 95 % within 30 s", judged, violations, note)


@check("one shard down stops no other")
def other_shards_continue(evidence: Evidence) -> Findings:
    """While one shard is down, the first one keeps its rate. Not judged if another fault ended just before."""
    series = SampleSeries(evidence.samples)
    judged = 0
    for fault in evidence.faults:
        if fault.fault != "shard-down":
            continue
        before = series.rate(fault.started_at - BEFORE_S / 2, fault.started_at, measured_s=APART_S)
        meanwhile = series.rate(fault.started_at, fault.healed_at, measured_s=APART_S)
        disturbed = any(other.started_at < fault.started_at < other.healed_at + APART_S for other in evidence.faults)
        if disturbed or not before or meanwhile is None:
            continue
        judged += 1
        if meanwhile < CONTINUES * before:
            example = (
                f"{fault.detail}, {fault.started_at:.1f} to {fault.healed_at:.1f}: "
                f"{before:.0f}/s before, {meanwhile:.0f}/s meanwhile"
            )
            yield Violation("a shard that was down delayed another", (example,))
    return judged
