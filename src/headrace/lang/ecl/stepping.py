"""Steps the instances of keys by a compiled table. Pure: no database, no clock.

Owns: deadlines, evidence and outputs of an instance. The database engine and Spark both step here, so they give the same outputs.
Promises: every transition is computed once and remembered; one batch fires a bounded number of timers, so no pattern can make a
transaction without end: the rest is due in the next batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.lang.ecl.network import live_timers, step_units
from headrace.lang.ecl.registers import Memory
from headrace.lang.ecl.table import Table, TableState, earliest, next_deadlines, start_state

TICKS_MAX = 20_000
MEMO_MAX = 20_000
"""Entries of each kind that a table remembers: the nodes of a large pattern make many transitions, and events may have any number of
types."""

Facts = Sequence["str | None"]
Transition = tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...], int, int, bool]
"""(units afterwards, tokens, labels recorded, timers and loops started, timers that run afterwards, whether anything changes)"""


@dataclass(slots=True)
class Machine:
    """One running machine of a key. `memory` is None while it was not needed since the instance was loaded."""

    units: tuple[int, ...]
    deadlines: tuple[int | None, ...]
    memory: Memory | None
    evidence: list[int] = field(default_factory=list)
    evidence_total: int = 0
    deadline: int | None = None


@dataclass(slots=True)
class Instance:
    """The state of a key's machine; times in microseconds. `evidence` keeps the newest positions of `evidence_total`."""

    key: str
    units: tuple[int, ...]
    deadlines: tuple[int | None, ...]
    started_at: int
    seen_at: int
    evidence: list[int] = field(default_factory=list)
    evidence_total: int = 0
    is_changed: bool = False
    memory: str | None = None
    """The machines and registers of a table with registers, as JSON."""
    deadline: int | None = field(init=False)
    """The earliest of the deadlines."""

    def __post_init__(self) -> None:
        self.deadline = earliest(self.deadlines)

    @property
    def state(self) -> TableState:
        return TableState(self.units, self.deadlines)


class Correlation(NamedTuple):
    """An output: of an event (its position) or of a timer (None). `place` counts from 1 among the outputs of the same event, or
    of the same deadline, of a key."""

    key: str
    position: int | None
    time: int
    token: str
    place: int
    evidence: tuple[int, ...]
    evidence_total: int
    values: str | None = None
    """What the registers held, as JSON."""


class Batch:
    """The events of one batch and the instances of their keys.

    `forgets`: the correlator forgets keys without events, so the time of a key's last event is always written."""

    def __init__(self, table: Table, evidence_max: int, forgets: bool = False, *, ticks_left: int = TICKS_MAX) -> None:
        self._table = table
        self._evidence_max = evidence_max
        self._forgets = forgets
        self.ticks_left = ticks_left
        self.outputs: list[Correlation] = []
        self._instances: dict[str, Instance] = {}
        self._transitions: dict[tuple[tuple[int, ...], tuple[int, ...] | int], Transition] = table.memo.setdefault(
            "transitions", {}
        )

    def load(self, instances: Iterable[Instance]) -> None:
        """Takes over the stored instances. A key without one starts at its first event."""
        for instance in instances:
            self._instances[instance.key] = instance

    def pop(self, key: str) -> Instance:
        """Hands out the instance of a key that has no more events in this batch."""
        return self._instances.pop(key)

    @property
    def changed(self) -> list[Instance]:
        """The instances to write back."""
        return [instance for instance in self._instances.values() if instance.is_changed]

    def step(self, key: str, position: int, symbols: tuple[int, ...], time: int, facts: Facts | None = None) -> bool:
        """One event, after the timers due by its time. False: too many of those for one batch, and the event is not processed."""
        instance = self._instances.get(key)
        if instance is None:
            state = start_state(self._table, time)
            instance = Instance(key, state.units, state.deadlines, time, time, is_changed=True)
            self._instances[key] = instance
        if instance.deadline is not None and instance.deadline <= time and not self._fire(instance, time):
            return False
        transition = self._transitions.get((instance.units, symbols)) or self._compute(instance.units, symbols)
        instance.seen_at = time
        if transition[5]:
            instance.evidence.append(position)
            instance.evidence_total += 1
            self._apply(instance, instance, transition, position, time)
        elif self._forgets:
            instance.is_changed = True
        return True

    def tick(self, key: str, until: int) -> bool:
        """Fires the timers of a key that are due by a time. False: there are more than one batch may fire."""
        return self._fire(self._instances[key], until)

    def _fire(self, instance: Instance, until: int) -> bool:
        """Deadline by deadline; each firing happens at its deadline."""
        while (now := instance.deadline) is not None and now <= until:
            if self.ticks_left <= 0:
                return False
            self.ticks_left -= 1
            due = sum(1 << timer for timer, deadline in enumerate(instance.deadlines) if deadline == now)
            transition = self._transitions.get((instance.units, due)) or self._compute(instance.units, due)
            self._apply(instance, instance, transition, None, now)
        return True

    def _compute(self, units: tuple[int, ...], input_: tuple[int, ...] | int) -> Transition:
        """The transition on the symbols of an event, or on the mask of the timers that are due."""
        table = self._table
        symbols, due = (None, input_) if isinstance(input_, int) else (input_, 0)
        after, numbers, started = step_units(table.units, table.actions, units, symbols, due)
        is_change = after != units or bool(numbers) or started != 0
        recorded = tuple(table.recorded(numbers))
        transition = (after, table.pushed(numbers), recorded, started, live_timers(table.units, after), is_change)
        if len(self._transitions) < MEMO_MAX:
            self._transitions[units, input_] = transition
        return transition

    def _apply(
        self,
        instance: Instance,
        machine: Instance | Machine,
        transition: Transition,
        position: int | None,
        now: int,
        place: int = 0,
        values: str | None = None,
    ) -> None:
        """The machine of an instance after a transition. `place` is that of the last output before, `values` what the registers hold."""
        machine.units, tokens, _, started, running, _ = transition
        instance.is_changed = True
        if machine.deadlines:
            machine.deadlines = next_deadlines(self._table, machine.deadlines, running, started, now)
            machine.deadline = earliest(machine.deadlines)
        if len(machine.evidence) > self._evidence_max:
            del machine.evidence[: len(machine.evidence) - self._evidence_max]
        if tokens:
            evidence, total = tuple(machine.evidence), machine.evidence_total
            self.outputs += [
                Correlation(instance.key, position, now, token, number, evidence, total, values)
                for number, token in enumerate(tokens, place + 1)
            ]
        if machine.units == self._table.start_units:
            machine.evidence, machine.evidence_total = [], 0
