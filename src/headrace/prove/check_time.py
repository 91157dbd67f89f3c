"""Checks that look at time: who held an action when, whether everything was worked off, and how soon the rate came back."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from headrace.prove.evidence import Evidence, Fallen, Sample
from headrace.prove.history import Began, Left
from headrace.prove.verdict import Verdict, Violation, judge

EXCUSES = frozenset(
    {"stop-node", "kill-node", "kill-server", "restart-server", "kill-backends", "cut", "delay", "exhaust", "clock", "failpoint",
     "step", "disk-full", "shard-down"}
)  # fmt: skip
"""Faults in which a lease may end while its handler runs: its node cannot make it longer, or is not there any more."""
SETTLED_S = 12.0
"""How long after such a fault an action may still be in two hands: a lease, and the handlers that began meanwhile."""
RECOVERED = 0.95
RECOVER_S = 30.0
BEFORE_S = 20.0
"""The rate before a fault is that of so many seconds, and not of those in which an earlier fault was still made up for."""
MADE_UP_S = 5.0
WINDOW_S = 8.0
"""The rate is back with the first so many seconds that have it. In a shorter time a few batches that come late, and then at
once, look like a rate."""
MEASURED_S = 6.0
"""A rate of less than this is none."""
BACKLOG_S = 2.0
"""What may be left at the end, as seconds of the rate before: more of it, and the rate is that of a backlog that grows."""
GOES_ON = 0.5
"""Share of the rate before that a shard has at least while another is down: for what the machine does meanwhile."""
APART_S = 2.0
"""Between the healing of a fault and the next one, for the rate between them to be a usual one."""
JUDGE_S = 20.0
"""Where the rate was not back when the next fault came: judged if there was so much time, else nothing can be said."""


def one_holder(evidence: Evidence) -> Verdict:
    """No two nodes handle one action at the same time, but for faults that keep a node from making its lease longer."""
    spans = _spans(evidence)
    excuses = [(one.began_at - 1, one.healed_at + SETTLED_S) for one in evidence.fallen if one.fault in EXCUSES]

    def excused(at: float) -> bool:
        return any(begin <= at <= end for begin, end in excuses)

    def found() -> Iterator[Violation]:
        for action_id, held in spans.items():
            held.sort()
            for (began, left, node), (again, _, other) in itertools.pairwise(held):
                if other != node and again < left and not excused(again):
                    told = (f"{node} held {action_id} from {began:.3f} to {left:.3f}", f"{other} began at {again:.3f}")
                    yield Violation("two nodes handled one action at the same time", told)

    judged = sum(not excused(began) for held in spans.values() for began, _, _ in held)
    return judge("one-holder", "at most one valid lease", judged, found())


def _spans(evidence: Evidence) -> dict[UUID, list[tuple[float, float, str]]]:
    began: dict[tuple[UUID, str, int], float] = {}
    spans: dict[UUID, list[tuple[float, float, str]]] = defaultdict(list)
    for one in evidence.handlings:
        place = (one.action_id, one.node, one.attempt)
        if isinstance(one, Began):
            began[place] = one.at
        elif isinstance(one, Left) and place in began:
            spans[one.action_id].append((began.pop(place), one.at, one.node))
    return spans


def worked_off(evidence: Evidence) -> Verdict:
    """Healed and waited for, nothing is left: no event without position, no cursor behind, no action waiting, no timer due."""
    found = (
        Violation("not everything was worked off", (f"{what}: {count}",)) for what, count in evidence.left_over.items() if count
    )
    return judge("worked-off", "whatever was broken, it goes on", len(evidence.left_over), found)


def processes_live(evidence: Evidence) -> Verdict:
    """No process of the product ends by itself because a database, a network or a node is gone."""
    found = (Violation("a process ended by itself", (one,)) for one in evidence.unexpected)
    return judge("processes-live", "a fault ends no node", len(evidence.fallen), found)


def rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Events handled per second, between samples."""
    return [
        (other.at, (other.consumed - one.consumed) / (other.at - one.at))
        for one, other in itertools.pairwise(samples)
        if other.at > one.at
    ]


class Course:
    """How many events were handled up to when, and how many waited."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._times = [one.at for one in samples]

    def between(self, begin: float, end: float) -> Sequence[Sample]:
        return self._samples[bisect_left(self._times, begin) : bisect_right(self._times, end)]

    def rate(self, begin: float, end: float, *, measured_s: float = MEASURED_S, came: bool = False) -> float | None:
        """Events handled per second, or those that came; None where nobody looked for so long."""
        found = self.between(begin, end)
        if len(found) < 3 or found[-1].at - found[0].at < measured_s:
            return None
        events = found[-1].consumed - found[0].consumed + (found[-1].lag - found[0].lag if came else 0)
        return events / (found[-1].at - found[0].at)

    def back_s(self, begin: float, end: float, wanted: float) -> float | None:
        """How long after `begin` the first window starts that has the rate wanted; None where none ends before `end`. As many
        must have come as well: to work off a backlog is no rate."""
        for one in self.between(begin, end - WINDOW_S):
            window = (one.at, one.at + WINDOW_S)
            if min(self.rate(*window) or 0.0, self.rate(*window, came=True) or 0.0) >= wanted:
                return one.at - begin
        return None

    def backlog(self, end: float) -> int:
        """The least that waited in the seconds before: there is always something on its way."""
        return min((one.lag for one in self.between(end - WINDOW_S / 2, end)), default=0)


@dataclass(frozen=True)
class Recovery:
    """A fault, the rate before it, how long after its healing the rate was back, and what still waited when the time was up."""

    fallen: Fallen
    before_per_s: float | None
    wanted_per_s: float
    back_s: float | None
    backlog: int
    waited: bool
    """Whether the next fault left time enough to say that the rate is not back."""

    @property
    def judged(self) -> bool:
        return self.before_per_s is not None and (self.waited or self.back_s is not None)

    @property
    def late(self) -> bool:
        return self.judged and self.back_s is None

    @property
    def behind(self) -> bool:
        return self.judged and self.waited and self.backlog > BACKLOG_S * (self.before_per_s or 0.0)


def recoveries(evidence: Evidence, *, margin: float) -> list[Recovery]:
    """Every fault, in the order of time."""
    course = Course(evidence.samples)
    faults = sorted(evidence.fallen, key=lambda one: one.began_at)
    found: list[Recovery] = []
    for place, one in enumerate(faults):
        since = max(one.began_at - BEFORE_S, faults[place - 1].healed_at + MADE_UP_S if place else 0.0)
        until = min(one.healed_at + RECOVER_S, faults[place + 1].began_at if place + 1 < len(faults) else evidence.flows_until)
        before = course.rate(since, one.began_at) or None
        wanted = (before or 0.0) * RECOVERED * (1 - margin)
        back_s = course.back_s(one.healed_at, until, wanted) if before else None
        waited = until - one.healed_at >= JUDGE_S
        found.append(Recovery(one, before, wanted, back_s, course.backlog(until), waited))
    return found


def rate_returns(evidence: Evidence, *, margin: float = 0.0) -> Verdict:
    """After each fault the rate is back at 95 % of the one before within 30 s, and no backlog stays; the margin is for a noisy
    machine, and told."""
    found = recoveries(evidence, margin=margin)
    judged = sum(one.judged for one in found)
    broken: list[Violation] = []
    for one in found:
        told = (
            f"{one.fallen.fault} healed at {one.fallen.healed_at:.1f}: before {one.before_per_s or 0:.0f}/s, "
            f"wanted {one.wanted_per_s:.0f}/s, {one.backlog} events waiting at the end",
        )
        if one.late:
            broken.append(Violation(f"the rate was not back within {RECOVER_S:.0f} s", told))
        elif one.behind:
            broken.append(Violation(f"a backlog was there after {RECOVER_S:.0f} s", told))
    note = f"margin {margin:.0%}; {judged} of {len(found)} faults left time to judge"
    return judge("rate-returns", "after a fault the rate is back at 95 % within 30 s", judged, broken, note)


def other_shards_go_on(evidence: Evidence) -> Verdict:
    """While one shard is down, the first one's rate goes on. Not judged where another fault was healed just before."""
    course = Course(evidence.samples)
    judged = 0
    broken: list[Violation] = []
    for one in evidence.fallen:
        if one.fault != "shard-down":
            continue
        before = course.rate(one.began_at - BEFORE_S / 2, one.began_at, measured_s=APART_S)
        meanwhile = course.rate(one.began_at, one.healed_at, measured_s=APART_S)
        disturbed = any(other.began_at < one.began_at < other.healed_at + APART_S for other in evidence.fallen)
        if disturbed or not before or meanwhile is None:
            continue
        judged += 1
        if meanwhile < GOES_ON * before:
            lasted = f"{one.began_at:.1f} to {one.healed_at:.1f}"
            told = f"{one.detail}, {lasted}: {before:.0f}/s before, {meanwhile:.0f}/s then"
            broken.append(Violation("a shard that was down held up another", (told,)))
    return judge("other-shards-go-on", "one shard down stops no other", judged, broken)
