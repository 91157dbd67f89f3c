"""Checks that look at time: who held an action when, whether everything was worked off, and how soon the rate came back."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from uuid import UUID

from headrace.prove._evidence import Evidence, Fallen, Sample
from headrace.prove._history import Began, Left
from headrace.prove._verdict import Verdict, Violation, judge

EXCUSES = frozenset(
    {"stop-node", "kill-node", "kill-server", "restart-server", "kill-backends", "cut", "delay", "exhaust", "clock", "failpoint",
     "step", "disk-full", "shard-down"}
)  # fmt: skip
"""Faults in which a lease may end while its handler runs: its node cannot make it longer, or is not there any more."""
SETTLED_S = 12.0
"""How long after such a fault an action may still be in two hands: a lease, and the handlers that began meanwhile."""
RECOVERED = 0.95
RECOVER_S = 30.0
BEFORE_S = 10.0
WINDOW_S = 4.0
GOES_ON = 0.5
"""Share of the rate before that a shard has at least while another is down: for what the machine does meanwhile."""
APART_S = 2.0
"""Between the healing of a fault and the next one, for the rate between them to be a usual one."""
JUDGE_S = 20.0
"""Where the rate was not back when the next fault came: judged if there was so much time, else nothing can be said."""


def one_holder(evidence: Evidence) -> Verdict:
    """No two nodes handle one action at the same time, but for faults that keep a node from making its lease longer."""
    spans = _spans(evidence)
    excused = [(one.began_at - 1, one.healed_at + SETTLED_S) for one in evidence.fallen if one.fault in EXCUSES]

    def found() -> Iterator[Violation]:
        for action_id, held in spans.items():
            held.sort()
            for (began, left, node), (again, _, other) in itertools.pairwise(held):
                if other != node and again < left and not any(a <= again <= b for a, b in excused):
                    told = (f"{node} held {action_id} from {began:.3f} to {left:.3f}", f"{other} began at {again:.3f}")
                    yield Violation("two nodes handled one action at the same time", told)

    return judge("one-holder", "at most one valid lease", sum(map(len, spans.values())), found())


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


def recovery_s(rated: Sequence[tuple[float, float]], fallen: Fallen, *, until: float, wanted: float) -> float | None:
    """How long after it was healed the rate was back; None where it was not up to then."""
    after = [(at, rate) for at, rate in rated if fallen.healed_at <= at <= until]
    for start, _ in after:
        window = [rate for at, rate in after if start <= at <= start + WINDOW_S]
        if window and after[-1][0] >= start + WINDOW_S / 2 and sum(window) / len(window) >= wanted:
            return start - fallen.healed_at
    return None


def rate_returns(evidence: Evidence, *, margin: float = 0.0) -> Verdict:
    """After each fault the rate is back at 95 % of the one before within 30 s; the margin is for a noisy machine, and told."""
    rated = rates(evidence.samples)
    faults = sorted(evidence.fallen, key=lambda one: one.began_at)
    judged = 0
    broken: list[Violation] = []
    for place, one in enumerate(faults):
        until = min(one.healed_at + RECOVER_S, faults[place + 1].began_at if place + 1 < len(faults) else evidence.flows_until)
        before = [rate for at, rate in rated if one.began_at - BEFORE_S <= at < one.began_at]
        if len(before) < 3 or median(before) <= 0:
            continue
        wanted = median(before) * RECOVERED * (1 - margin)
        back_s = recovery_s(rated, one, until=until, wanted=wanted)
        if back_s is None and until < one.healed_at + JUDGE_S:
            continue
        judged += 1
        if back_s is None:
            told = f"{one.fault} healed at {one.healed_at:.1f}: before {median(before):.0f}/s, wanted {wanted:.0f}/s"
            broken.append(Violation(f"the rate was not back within {RECOVER_S:.0f} s", (told,)))
    note = f"margin {margin:.0%}; {judged} of {len(faults)} faults left time to judge"
    return judge("rate-returns", "after a fault the rate is back at 95 % within 30 s", judged, broken, note)


def other_shards_go_on(evidence: Evidence) -> Verdict:
    """While one shard is down, the first one's rate goes on. Not judged where another fault was healed just before."""
    rated = rates(evidence.samples)
    judged = 0
    broken: list[Violation] = []
    for one in evidence.fallen:
        if one.fault != "shard-down":
            continue
        before = [rate for at, rate in rated if one.began_at - BEFORE_S <= at < one.began_at]
        meanwhile = [rate for at, rate in rated if one.began_at < at <= one.healed_at]
        disturbed = any(other.began_at < one.began_at < other.healed_at + APART_S for other in evidence.fallen)
        if disturbed or len(before) < 3 or len(meanwhile) < 3 or median(before) <= 0:
            continue
        judged += 1
        if median(meanwhile) < GOES_ON * median(before):
            lasted = f"{one.began_at:.1f} to {one.healed_at:.1f}"
            told = f"{one.detail}, {lasted}: {median(before):.0f}/s before, {median(meanwhile):.0f}/s then"
            broken.append(Violation("a shard that was down held up another", (told,)))
    return judge("other-shards-go-on", "one shard down stops no other", judged, broken)
