"""Members of the pass: which consumers of an engine work on new events in the step of the sequencer that appends them.

Owns: the memory of what they cost lately. Promises: whoever is slow or fails goes the ordinary way, in a transaction of its own, and is tried in
the pass again only after a pause that doubles. A consumer joins after a batch of its own that was cheap and left nothing behind; so the first
events of a heavy one are never in the sequencer's hands. See docs/adr/0094."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

SLOW_S, WEIGHT = 0.005, 0.2
"""A consumer leaves when the mean of what its evaluations took in the pass, with this weight of the newest, is above this."""
JOIN_S = 0.025
"""It joins after a batch that took no longer than this, seen from the node. More than above, because a round trip and waiting for a turn are in it."""
SLOW_APPENDS, JOIN_APPENDS = 10, 40
"""The same in multiples of what steps lately took to append their events: where the machine is busy, everything takes longer."""
PASS_EVENTS_MAX = 100
"""A step works on so many events of a topic at most: see headrace_internal.sequence_step. A larger batch may take longer in proportion."""
HOLD_MIN_S, HOLD_MAX_S, GOOD_HOLDS = 1.0, 60.0, 10
"""For how long a consumer stays out after it was slow or has failed: doubled each time, and the first again after it was a member for so many
times as long. So it is out for most of the time where it is often slow, and slow in few steps where it is seldom."""


@dataclass(frozen=True)
class PassResult:
    """What a consumer did in the pass of a step."""

    outputs: int | None
    """How many rules fired or tokens were pushed; None: it failed."""
    work_s: float


@dataclass
class _Record:
    topic_id: int
    number: int
    is_member: bool = False
    mean_s: float = 0.0
    hold_s: float = HOLD_MIN_S
    hold_until: float = 0.0
    joined_at: float = 0.0


class PassMembers:
    """Those of one engine on one node, by the ids of their consumers."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: dict[int, _Record] = {}
        self._places: list[tuple[int, int]] | None = None
        self._append_s = 0.0

    def take_step(self, append_s: float) -> None:
        """A step of the sequencer has taken so long to append its events."""
        self._append_s += WEIGHT * (append_s - self._append_s)

    @property
    def places(self) -> list[tuple[int, int]]:
        """The topic of each member, and its number there: 0 for the rules, or that of a correlator."""
        if self._places is None:
            self._places = [(record.topic_id, record.number) for record in self._records.values() if record.is_member]
        return self._places

    def has(self, consumer_id: int) -> bool:
        record = self._records.get(consumer_id)
        return record is not None and record.is_member

    def take_batch(self, consumer_id: int, place: tuple[int, int], *, events: int, work_s: float) -> None:
        """A batch of its own is done, and nothing was left behind it."""
        record = self._records.setdefault(consumer_id, _Record(*place))
        if (record.topic_id, record.number) != place:
            record = self._records[consumer_id] = _Record(*place)
        now = self._clock()
        is_cheap = work_s * min(1, PASS_EVENTS_MAX / events) <= max(JOIN_S, JOIN_APPENDS * self._append_s)
        if not record.is_member and now >= record.hold_until and is_cheap:
            # Who was only behind keeps its mean.
            record.is_member, record.joined_at = True, now
            self._places = None

    def take_pass(self, consumer_id: int, work_s: float) -> None:
        """It has worked on the events of a step."""
        record = self._records[consumer_id]
        record.mean_s += WEIGHT * (work_s - record.mean_s)
        if record.mean_s > max(SLOW_S, SLOW_APPENDS * self._append_s):
            self.hold(consumer_id)

    def leave(self, consumer_id: int) -> None:
        """It is behind, or something else is due than new events."""
        record = self._records.get(consumer_id)
        if record is not None and record.is_member:
            record.is_member = False
            self._places = None

    def hold(self, consumer_id: int) -> None:
        """It was slow or has failed: it stays out for a while."""
        record = self._records.get(consumer_id)
        if record is None:
            return
        now = self._clock()
        if record.is_member and now - record.joined_at > GOOD_HOLDS * record.hold_s:
            record.hold_s = HOLD_MIN_S
        record.hold_until, record.hold_s = now + record.hold_s, min(2 * record.hold_s, HOLD_MAX_S)
        record.mean_s = 0.0
        self.leave(consumer_id)

    def leave_all(self) -> None:
        """A step has failed as a whole, perhaps because of one of them: each joins again after a batch of its own."""
        for consumer_id in self._records:
            self.leave(consumer_id)

    def keep(self, consumer_ids: Collection[int]) -> None:
        """Forgets all but these."""
        self._records = {consumer_id: record for consumer_id, record in self._records.items() if consumer_id in consumer_ids}
        self._places = None
