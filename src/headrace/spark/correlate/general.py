"""Stepping any table: nodes, several alphabets, timers. The table's own function, with every move remembered once it is known.

Promises the same as SimpleRun, and timers: those due by an event's time fire before it, and at the end those due by `until`."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headrace.lang.ecl import Table, TimerFlood, live_timers, move, start_state
from headrace.spark.correlate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Lists, Rows, StateRow

FIRINGS_MAX = 100_000
"""Firings of one key between two events; more means a pattern that ticks through a long silence."""
MOVES_MAX = 100_000
"""Moves that are remembered; the nodes of a large pattern could make more."""

_Units = tuple[int, ...]
_Deadlines = tuple[int | None, ...]
_Move = tuple[_Units, tuple[str, ...], int, int, bool]


@dataclass(slots=True)
class _Live:
    """A key at work. `due` is the earliest deadline."""

    key: str
    units: _Units
    deadlines: _Deadlines
    due: int | None
    started_at: int
    seen_at: int
    evidence: list[int] = field(default_factory=list)
    total: int = 0
    changed: bool = False


class GeneralRun:
    """Steps pieces of rows, key by key; a key may go on in the next piece."""

    def __init__(self, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False) -> None:
        self._table = table
        self._forgets = forgets
        self._evidence_max = evidence_max
        self._until = until
        self._moves: dict[tuple[_Units, tuple[int, ...] | int], _Move] = {}
        self._live: _Live | None = None
        self._outputs = Lists(OUTPUT_SCHEMA)
        self._states = Lists(STATE_SCHEMA)

    def feed(self, rows: Rows) -> tuple[pa.Table, pa.Table]:
        """The outputs of these rows, and the states of the keys that are done and that changed."""
        given = iter(rows.states.to_pylist() if rows.states is not None else ())
        symbols = zip(rows.symbol.tolist(), *(other.tolist() for other in rows.others), strict=True)
        columns = zip(
            rows.key.to_pylist(), symbols, rows.offset.tolist(), rows.time.tolist(), rows.event_id.to_pylist(), strict=True
        )
        for key, symbol, offset, time, event_id in columns:
            live = self._live
            if live is None or live.key != key:
                self._leave()
                live = self._live = self._known(next(given)) if symbol[0] == STATE_ROW else self._fresh(key, time)
            if symbol[0] != STATE_ROW:
                self._take(live, symbol, offset, time, event_id)
        return self._taken()

    def finish(self) -> tuple[pa.Table, pa.Table]:
        """What is left: the timers of the last key, and its state."""
        self._leave()
        return self._taken()

    def _taken(self) -> tuple[pa.Table, pa.Table]:
        outputs, states = self._outputs.table(), self._states.table()
        self._outputs, self._states = Lists(OUTPUT_SCHEMA), Lists(STATE_SCHEMA)
        return outputs, states

    def _fresh(self, key: str, time: int) -> _Live:
        state = start_state(self._table, time)
        return _Live(key, state.units, state.deadlines, _earliest(state.deadlines), time, time, changed=True)

    def _known(self, row: StateRow) -> _Live:
        deadlines = tuple(row["deadlines"])
        known = _Live(row["key"], tuple(row["units"]), deadlines, _earliest(deadlines), row["started_at"], row["seen_at"])
        known.evidence, known.total = list(row["evidence"]), row["evidence_total"]
        return known

    def _take(self, live: _Live, symbols: tuple[int, ...], offset: int, time: int, event_id: str | None) -> None:
        if live.due is not None and live.due <= time:
            self._advance(live, time)
        after, tokens, started, running, moved = self._move(live.units, symbols)
        live.seen_at = time
        live.changed |= self._forgets
        if moved:
            live.evidence.append(offset)
            live.total += 1
            self._went(live, after, started, running, time)
            self._put(live, tokens, offset, time, event_id)

    def _advance(self, live: _Live, upto: int) -> None:
        """Fires what is due, deadline by deadline; each firing happens at its deadline."""
        for _ in range(FIRINGS_MAX):
            now = live.due
            if now is None or now > upto:
                return
            due = sum(1 << timer for timer, at in enumerate(live.deadlines) if at == now)
            after, tokens, started, running, _ = self._move(live.units, due)
            self._went(live, after, started, running, now)
            self._put(live, tokens, None, now, None)
        raise TimerFlood(f"key {live.key!r}: more than {FIRINGS_MAX} timer firings up to {upto} us; use longer timers")

    def _move(self, units: _Units, given: tuple[int, ...] | int) -> _Move:
        """One input on these units: symbols of an event, or the mask of the timers that are due."""
        known = self._moves.get((units, given))
        if known is None:
            table = self._table
            symbols, due = (None, given) if isinstance(given, int) else (given, 0)
            after, pushed, started = move(table.units, table.actions, units, symbols, due)
            tokens = tuple(table.tokens[token] for token in pushed)
            known = (after, tokens, started, live_timers(table.units, after), after != units or bool(pushed) or started != 0)
            if len(self._moves) < MOVES_MAX:
                self._moves[units, given] = known
        return known

    def _went(self, live: _Live, after: _Units, started: int, running: int, now: int) -> None:
        live.units = after
        live.changed = True
        if live.deadlines:
            live.deadlines = tuple(
                now + duration if started >> timer & 1 else at if running >> timer & 1 else None
                for timer, (duration, at) in enumerate(zip(self._table.timers, live.deadlines, strict=True))
            )
            live.due = _earliest(live.deadlines)

    def _put(self, live: _Live, tokens: tuple[str, ...], offset: int | None, time: int, event_id: str | None) -> None:
        del live.evidence[: max(len(live.evidence) - self._evidence_max, 0)]
        for place, token in enumerate(tokens, 1):
            self._outputs.add(live.key, token, offset, time, place, list(live.evidence), live.total, event_id)
        if live.units == self._table.start_units:
            live.evidence, live.total = [], 0

    def _leave(self) -> None:
        """The last key is done: its timers until the end, and its state."""
        live, self._live = self._live, None
        if live is None:
            return
        if self._until is not None:
            self._advance(live, self._until)
        if live.changed:
            self._states.add(
                live.key, live.units, live.deadlines, live.evidence, live.total, live.started_at, live.seen_at
            )  # fmt: skip


def _earliest(deadlines: _Deadlines) -> int | None:
    return min((at for at in deadlines if at is not None), default=None)
