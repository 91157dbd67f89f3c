"""Steps the instances of keys by a table with registers: `as`, `count`, `each`.

The same promises as `stepping`. An event comes as *facts*: its type, the truths of the conditions that read the event alone, and the
fields that captures and the other conditions read, all as text, so that a database or Spark can extract them once for all keys.
A key may have several machines (`each`); their states are kept together in the memory of the key's instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import cast

import msgspec

from headrace.lang.condition import Type, Value
from headrace.lang.ecl.engine import Event, Status, holds
from headrace.lang.ecl.registers import LoopValues, Memory, Values
from headrace.lang.ecl.stepping import MEMO_MAX, TICKS_MAX, Batch, Facts, Instance, Machine, Transition
from headrace.lang.ecl.table import Table, TableState, classify, earliest, start_state, status_of

CONDITIONS_MAX = 4
"""Conditions over registers whose answers are all tried, to find the events whose step does not depend on them."""
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_TRUTHS = {"t": True, "true": True, "f": False, "false": False}
_Place = tuple[tuple[int, ...], tuple[str | None, ...]]
"""The state of a machine, and the facts of an event without its fields."""


@dataclass(slots=True)
class _ClassifiedEvent:
    """An event: its type and the truths of the conditions that read it alone, all its facts, and its fields once they were needed."""

    static: tuple[str | None, ...]
    facts: Facts
    time: int
    fields: Sequence[Value | None] | None = None


class _StoredMachine(msgspec.Struct, array_like=True):
    """A machine of `each` as JSON; the memory is encoded by its types."""

    units: tuple[int, ...]
    deadlines: tuple[int | None, ...]
    memory: list[object]
    evidence: list[int]
    evidence_total: int


@dataclass(slots=True)
class _Key:
    instance: Instance
    machines: list[Machine]


class RegisterBatch(Batch):
    """The events of one batch and the machines of their keys."""

    def __init__(self, table: Table, evidence_max: int, forgets: bool = False, *, ticks_left: int = TICKS_MAX) -> None:
        super().__init__(table, evidence_max, forgets, ticks_left=ticks_left)
        assert table.program is not None and table.registers is not None
        self._program = table.program
        self._each = table.registers.each
        self._dynamic = list(table.program.dynamic.items())
        self._codec = MachineCodec(table)
        self._decoders = [_DECODERS[field.type] for field in table.program.fields]
        self._facts_static = 1 + len(table.program.static)
        self._empty = table.program.empty
        self._keys: dict[str, _Key] = {}
        memo = table.memo
        self._symbols_by_facts: dict[tuple[str | None, ...], tuple[tuple[int, ...], ...]] = memo.setdefault("by facts", {})
        self._symbols: dict[tuple[object, ...], tuple[int, ...]] = memo.setdefault("symbols", {})
        self._known_steps: dict[_Place, tuple[tuple[int, ...], bool] | None] = memo.setdefault("known steps", {})

    def load(self, instances: Iterable[Instance]) -> None:
        """Takes over the stored instances. A key without one starts at its first event."""
        for instance in instances:
            self._keys[instance.key] = _Key(instance, self._codec.decode(instance))

    def pop(self, key: str) -> Instance:
        """Hands out the instance of a key that has no more events in this batch."""
        return self._build_instance(self._keys.pop(key))

    @property
    def changed(self) -> list[Instance]:
        """The instances to write back."""
        return [self._build_instance(key) for key in self._keys.values() if key.instance.is_changed]

    def step(self, key: str, position: int, symbols: tuple[int, ...], time: int, facts: Facts | None = None) -> bool:
        """One event, after the timers due by its time. False: too many of those for one batch, and the event is not processed."""
        assert facts is not None
        state = self._key(key, time)
        if self._table.timers and not self._fire_all(state, time):
            return False
        state.instance.seen_at = time
        static = tuple(facts[: self._facts_static])
        if not self._each and self._step_by_facts(state, static, position):
            return True
        event = _ClassifiedEvent(static, facts, time)
        if self._each and len(state.machines) < self._each and self._can_start(event):
            state.machines.append(self._fresh(time))
        self._take(state, event, position)
        if self._forgets:
            state.instance.is_changed = True
        return True

    def _step_by_facts(self, state: _Key, static: tuple[str | None, ...], position: int) -> bool:
        """Steps the one machine of a key if registers play no part in it: most events. The same as _take, with less to do."""
        machine = state.machines[0]
        known = self.known_step(machine.units, static)
        if known is None:
            return False
        units, is_change = known
        if is_change:
            is_anew = units == self._table.start_units
            self._step_over(state, machine, units, [] if is_anew else [position], is_anew=is_anew)
        elif self._forgets:
            state.instance.is_changed = True
        return True

    def known_step(self, units: tuple[int, ...], static: tuple[str | None, ...]) -> tuple[tuple[int, ...], bool] | None:
        """What an event of these facts does to a machine, and whether that changes anything; None if it depends on the registers,
        writes one, makes an output or starts a timer."""
        place = (units, static)
        if place in self._known_steps:
            return self._known_steps[place]
        possible = [self._transition(units, symbols) for symbols in self._possible_symbols(static)]
        known = None
        if possible and all(transition == possible[0] for transition in possible):
            after, tokens, recorded, started, _, is_change = possible[0]
            if not is_change or not (tokens or recorded or started or self._table.timers):
                known = after, is_change
        if len(self._known_steps) < MEMO_MAX:
            self._known_steps[place] = known
        return known

    def _possible_symbols(self, static: tuple[str | None, ...]) -> tuple[tuple[int, ...], ...]:
        """The symbols that an event of these facts can have, whatever the registers hold; none if there are too many cases."""
        if static in self._symbols_by_facts:
            return self._symbols_by_facts[static]
        found: dict[tuple[int, ...], None] = {}
        truths = self._static_truths(static)
        if len(self._dynamic) <= CONDITIONS_MAX:
            for answers in product((True, False, None), repeat=len(self._dynamic)):
                cases = {text: answer for (text, _), answer in zip(self._dynamic, answers, strict=True)}
                found[classify(self._table, Event(static[0] or "", 0, {**truths, **cases}), _look_up)] = None
        else:
            # A condition over registers is not among these truths.
            with suppress(KeyError):
                found[classify(self._table, Event(static[0] or "", 0, truths), _look_up_known)] = None
        if len(self._symbols_by_facts) < MEMO_MAX:
            self._symbols_by_facts[static] = tuple(found)
        return tuple(found)

    def _transition(self, units: tuple[int, ...], input_: tuple[int, ...] | int) -> Transition:
        return self._transitions.get((units, input_)) or self._compute(units, input_)

    def units_of(self, key: str, time: int) -> tuple[int, ...]:
        """The state of the one machine of a key, which starts now if it is new."""
        return self._key(key, time).machines[0].units

    def step_over(self, key: str, units: tuple[int, ...], changes: list[int], time: int, *, is_anew: bool) -> None:
        """Takes the one machine of a key to a state, by events that `known_step` has reported. The last one was at `time`; `changes` are
        the positions that are evidence. `is_anew`: the machine was at its start meanwhile, and earlier evidence is void."""
        state = self._keys[key]
        state.instance.seen_at = time
        if changes or is_anew:
            self._step_over(state, state.machines[0], units, changes, is_anew=is_anew)
        elif self._forgets:
            state.instance.is_changed = True

    def _step_over(self, state: _Key, machine: Machine, units: tuple[int, ...], changes: list[int], *, is_anew: bool) -> None:
        machine.units = units
        if is_anew:
            machine.evidence, machine.evidence_total = [], 0
        machine.evidence += changes
        machine.evidence_total += len(changes)
        if len(machine.evidence) > self._evidence_max:
            del machine.evidence[: len(machine.evidence) - self._evidence_max]
        state.instance.is_changed = True

    def _key(self, key: str, time: int) -> _Key:
        state = self._keys.get(key)
        if state is None:
            instance = Instance(key, self._table.start_units, (), time, time, is_changed=True)
            state = self._keys[key] = _Key(instance, [] if self._each else [self._fresh(time)])
        return state

    def tick(self, key: str, until: int) -> bool:
        """Fires the timers of a key that are due by a time. False: there are more than one batch may fire."""
        return self._fire_all(self._keys[key], until)

    def _fresh(self, time: int) -> Machine:
        start = start_state(self._table, time)
        return Machine(start.units, start.deadlines, self._empty, deadline=earliest(start.deadlines))

    def _memory(self, state: _Key, machine: Machine) -> Memory:
        """What a machine keeps; of a loaded instance, decoded when it is first needed."""
        if machine.memory is None:
            machine.memory = self._codec.decode_memory(state.instance.memory)
        return machine.memory

    def _can_start(self, event: _ClassifiedEvent) -> bool:
        assert self._table.start_predicate is not None
        truths = {**self._static_truths(event.static), **self._evaluate(self._empty, event)}
        return holds(self._table.start_predicate, Event(event.static[0] or "", event.time, truths), _look_up)

    def _evaluate(self, memory: Memory, event: _ClassifiedEvent) -> dict[str, bool | None]:
        fields = self._fields(event)
        return {text: function(fields, memory, event.time) for text, function in self._dynamic}

    def _fields(self, event: _ClassifiedEvent) -> Sequence[Value | None]:
        """The fields that registers need; decoded when the first machine asks for them."""
        if event.fields is None:
            texts = event.facts[self._facts_static :]
            event.fields = [None if text is None else decode(text) for text, decode in zip(texts, self._decoders, strict=True)]
        return event.fields

    def _static_truths(self, static: Facts) -> dict[str, bool | None]:
        return {text: _TRUTHS.get(fact or "") for text, fact in zip(self._program.static, static[1:], strict=True)}

    def _take(self, state: _Key, event: _ClassifiedEvent, position: int) -> None:
        place = 0
        for machine in state.machines:
            possible = self._possible_symbols(event.static)
            symbols = possible[0] if len(possible) == 1 else self._classify(state, machine, event)
            transition = self._transition(machine.units, symbols)
            if transition[5]:
                machine.evidence.append(position)
                machine.evidence_total += 1
                place = self._move(state, machine, transition, position, event.time, event, place)
        self._drop_completed(state)

    def _classify(self, state: _Key, machine: Machine, event: _ClassifiedEvent) -> tuple[int, ...]:
        """The symbols of an event that depend on the registers."""
        dynamic = self._evaluate(self._memory(state, machine), event)
        key = (event.static, *dynamic.values())
        known = self._symbols.get(key)
        if known is None:
            truths = {**self._static_truths(event.static), **dynamic}
            known = classify(self._table, Event(event.static[0] or "", 0, truths), _look_up)
            if len(self._symbols) < MEMO_MAX:
                self._symbols[key] = known
        return known

    def _fire_all(self, state: _Key, until: int) -> bool:
        """Deadline by deadline; each firing happens at its deadline, the oldest machine first."""
        while (
            now := min((m.deadline for m in state.machines if m.deadline is not None), default=None)
        ) is not None and now <= until:
            if self.ticks_left <= 0:
                return False
            place = 0
            for machine in state.machines:
                if machine.deadline != now:
                    continue
                self.ticks_left -= 1
                due = sum(1 << timer for timer, deadline in enumerate(machine.deadlines) if deadline == now)
                transition = self._transition(machine.units, due)
                place = self._move(state, machine, transition, None, now, None, place)
            self._drop_completed(state)
        return True

    def _drop_completed(self, state: _Key) -> None:
        """A completed machine of `each` makes room for another; a pattern with one machine stays completed."""
        if self._each:
            state.machines = [m for m in state.machines if status_of(self._table, TableState(m.units)) is Status.WAITING]

    def _move(
        self,
        state: _Key,
        machine: Machine,
        transition: Transition,
        position: int | None,
        now: int,
        event: _ClassifiedEvent | None,
        place: int,
    ) -> int:
        """The machine after a transition, with what it keeps. Returns the place of its last output."""
        _, tokens, recorded, started, _, _ = transition
        if recorded:
            fields = None if event is None else self._fields(event)
            machine.memory = self._program.record(self._memory(state, machine), recorded, fields, now)
        values = self._codec.encode_values(self._memory(state, machine)) if tokens else None
        self._apply(state.instance, machine, transition, position, now, place, values)
        if started and (cleared := self._table.cleared(started)):
            machine.memory = self._program.clear(self._memory(state, machine), cleared)
        return place + len(tokens)

    def _build_instance(self, key: _Key) -> Instance:
        instance = key.instance
        instance.memory = self._codec.encode(key.machines, instance.memory)
        if self._each:
            deadline = min((m.deadline for m in key.machines if m.deadline is not None), default=None)
            instance.deadlines = () if deadline is None else (deadline,)
        else:
            (machine,) = key.machines
            instance.units, instance.deadlines = machine.units, machine.deadlines
            instance.evidence, instance.evidence_total = machine.evidence, machine.evidence_total
        instance.deadline = earliest(instance.deadlines)
        return instance


def read_machines(table: Table, instance: Instance) -> list[Machine]:
    """The running machines of a stored instance, the oldest first, each with its registers; only `each` has other than one."""
    codec = MachineCodec(table)
    machines = codec.decode(instance)
    for machine in machines:
        if machine.memory is None:
            machine.memory = codec.decode_memory(instance.memory)
    return machines


def _look_up(text: str, subject: object) -> bool | None:
    return cast("dict[str, bool | None]", subject).get(text)


def _look_up_known(text: str, subject: object) -> bool | None:
    """Raises KeyError for a condition that is not among the truths."""
    return cast("dict[str, bool | None]", subject)[text]


_DECODERS: dict[Type, Callable[[str], Value]] = {
    Type.TEXT: str,
    Type.BOOLEAN: _TRUTHS.__getitem__,
    Type.NUMERIC: Decimal,
    Type.INTEGER: int,
    Type.TIMESTAMPTZ: int,
}
"""A field as every engine prints it: numbers in digits, booleans as t or true, timestamps in microseconds."""


class MachineCodec:
    """The machines of an instance and the text of its memory: the registers of its machine, or for `each` all its machines.

    Numerics are texts, so that no reader rounds them."""

    def __init__(self, table: Table) -> None:
        assert table.program is not None and table.registers is not None
        self._program = table.program
        self._each = bool(table.registers.each)
        self._types = [node.type for node in table.program.captures]
        self._matches = len(table.registers.matches)

    def encode(self, machines: list[Machine], before: str | None) -> str | None:
        """The text of these machines; `before` is the text that the instance was loaded with."""
        if not self._each:
            (machine,) = machines
            return before if machine.memory is None else msgspec.json.encode(self._encode_memory(machine.memory)).decode()
        stored = [
            _StoredMachine(m.units, m.deadlines, self._encode_memory(m.memory or ()), m.evidence, m.evidence_total)
            for m in machines
        ]
        return msgspec.json.encode(stored).decode()

    def decode(self, instance: Instance) -> list[Machine]:
        if not self._each:
            state = (instance.units, instance.deadlines, None, instance.evidence, instance.evidence_total)
            return [Machine(*state, deadline=instance.deadline)]
        return [
            Machine(
                m.units, m.deadlines, self._decode_memory(m.memory), m.evidence, m.evidence_total, deadline=earliest(m.deadlines)
            )
            for m in msgspec.json.decode(instance.memory or "[]", type=list[_StoredMachine])
        ]

    def decode_memory(self, text: str | None) -> Memory:
        """The registers of a pattern with one machine."""
        return self._decode_memory(msgspec.json.decode(text)) if text else self._program.empty

    def _encode_memory(self, memory: Memory) -> list[object]:
        return [self._encode_entry(entry) for entry in memory]

    def _decode_memory(self, entries: Iterable[object]) -> Memory:
        return tuple(self._decode_entry(number, entry) for number, entry in enumerate(entries))

    def encode_values(self, memory: Memory) -> str:
        """The values of an output, as JSON: numerics as numbers with all their digits."""
        return _ENCODER.encode(self._program.show(memory)).decode()

    def _encode_entry(self, entry: object) -> object:
        if isinstance(entry, LoopValues):
            return [entry.rounds, *([_encode(value) for value in values] for values in entry[1:])]
        return None if entry is None else [_encode(value) for value in cast(Values, entry)]

    def _decode_entry(self, number: int, entry: object) -> Values | LoopValues | tuple[int, ...] | None:
        if entry is None:
            return None
        parts = cast("list[object]", entry)
        if number < self._matches:
            return self._decode_values(parts)
        if number < self._matches + len(self._program.registers.loops):
            return LoopValues(cast(int, parts[0]), *(self._decode_values(cast("list[object]", part)) for part in parts[1:]))
        return tuple(cast("list[int]", parts))

    def _decode_values(self, values: Sequence[object]) -> Values:
        return tuple(_restore(value, type_) for value, type_ in zip(values, self._types, strict=True))


def _encode(value: Value | None) -> object:
    return str(value) if isinstance(value, Decimal) else value


def _restore(value: object, type_: Type) -> Value | None:
    return Decimal(value) if type_ is Type.NUMERIC and isinstance(value, str) else cast("Value | None", value)


AnyBatch = Batch | RegisterBatch


def make_batch(table: Table, evidence_max: int, forgets: bool = False, *, ticks_left: int = TICKS_MAX) -> AnyBatch:
    """The events of one batch and the instances of their keys.

    `forgets`: the correlator forgets keys without events, so the time of a key's last event is always written."""
    kind = Batch if table.registers is None else RegisterBatch
    return kind(table, evidence_max, forgets, ticks_left=ticks_left)
