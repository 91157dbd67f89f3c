"""Stepping: the events of a batch through the instances of their keys, by the compiled table. Pure: no database, no clock.

Promises: the outputs, states and evidence that the table's own function gives; at most TICKS_MAX firings of timers in one batch,
so that no pattern can make a transaction without end: what is left is due in the next one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from headrace.correlators.instances import Correlation, Instance, to_us
from headrace.lang.ecl import Output, Table, TableState, advance_state, is_start, next_deadline, start_state, take_event

TICKS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Classified:
    """An event as a table sees it: a row of headrace_internal.symbols_<correlator_id>."""

    position: int
    key: str
    symbol: int | None
    symbols: list[int] | None
    appended_at: datetime

    @property
    def given(self) -> tuple[int, ...]:
        return tuple(self.symbols) if self.symbols is not None else (self.symbol or 0,)


@dataclass(slots=True)
class _Live:
    """An instance at work."""

    key: str
    state: TableState
    started_at: int
    seen_at: int
    evidence: list[int]
    evidence_total: int
    changed: bool = False


@dataclass
class Batch:
    """One batch of a correlator. `forgets`: the time of a key's last event counts, so it is always written."""

    table: Table
    evidence_max: int
    forgets: bool = False
    ticks_left: int = TICKS_MAX
    outputs: list[Correlation] = field(default_factory=list)
    _live: dict[str, _Live] = field(default_factory=dict)

    def know(self, instances: Iterable[Instance]) -> None:
        """Takes in where keys stood before."""
        for one in instances:
            live = _Live(one.key, one.state, one.started_at, one.seen_at, list(one.evidence), one.evidence_total)
            self._live[one.key] = live

    def take(self, event: Classified) -> bool:
        """One event, after the timers due by its time. False: too many of those for one batch, and the event is not taken."""
        time = to_us(event.appended_at)
        live = self._live.get(event.key)
        if live is None:
            live = self._live[event.key] = _Live(event.key, start_state(self.table, time), time, time, [], 0, changed=True)
        if not self._advance(live, time):
            return False
        after, outputs, moved = take_event(self.table, live.state, event.given, time)
        if moved:
            live.state = after
            live.evidence.append(event.position)
            live.evidence_total += 1
            live.changed = True
            self._put(live, event.position, outputs)
        live.seen_at = time
        live.changed |= self.forgets
        return True

    def tick(self, key: str, upto: int) -> bool:
        """Fires the timers of a key that are due by a time. False: there are more than one batch may fire."""
        return self._advance(self._live[key], upto)

    @property
    def changed(self) -> list[Instance]:
        """The instances to be written."""
        return [
            Instance(live.key, live.state, live.started_at, live.seen_at, tuple(live.evidence), live.evidence_total)
            for live in self._live.values()
            if live.changed
        ]

    def _advance(self, live: _Live, time: int) -> bool:
        while (deadline := next_deadline(live.state)) is not None and deadline <= time:
            if self.ticks_left <= 0:
                return False
            self.ticks_left -= 1
            live.state, outputs = advance_state(self.table, live.state, deadline)
            live.changed = True
            self._put(live, None, outputs)
        return True

    def _put(self, live: _Live, position: int | None, outputs: tuple[Output, ...]) -> None:
        del live.evidence[: max(len(live.evidence) - self.evidence_max, 0)]
        evidence = tuple(live.evidence) if outputs else ()
        self.outputs += [
            Correlation(live.key, position, output.time, output.token, place, evidence, live.evidence_total)
            for place, output in enumerate(outputs, 1)
        ]
        if is_start(self.table, live.state):
            live.evidence = []
            live.evidence_total = 0
