"""The space of configurations that one table, or several side by side, can reach: what every analysis walks over.

A configuration is the units of each table and the zone of all running timers; its inputs are events (one per class that
can occur) and ticks (each set of timers that can come due together). Configurations are numbered in the order of
breadth first search, so the first hit of a search has a shortest trace. Bounded, with a clear error.

Which timers can come due first, or together, depends on when they were started. A *zone* has all the times that running timers can
still have left, exactly, as bounds on differences, so that an analysis neither misses nor invents a firing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from headrace.lang.ecl.alphabet import Example, Situation, Situations, TooWide, Trace, TraceStep, leaves, possible_situations
from headrace.lang.ecl.engine import Output
from headrace.lang.ecl.errors import ANALYSIS_STEPS_MAX, Budget, StateLimitExceeded
from headrace.lang.ecl.network import live_timers, step_units
from headrace.lang.ecl.table import Table, TableState, start_state
from headrace.lang.ecl.tree import Predicate


@dataclass(frozen=True, slots=True)
class Zone:
    """Remaining times of `timers`. Every zone handed out holds at least one point and is in closed form.

    Row and column 0 stand for the number zero, the others for the running timers in rising order. `bounds[i][j]` limits
    x_i - x_j: 2c+1 means ≤ c, 2c means < c."""

    timers: tuple[int, ...]
    bounds: tuple[tuple[int, ...], ...]


EMPTY_ZONE = Zone((), ((1,),))


def started(zone: Zone, remaining: Mapping[int, int], running: int) -> Zone:
    """The timers of the mask `running` as they are, and those of `remaining` with exactly that time left."""
    stay = [index for index, timer in enumerate(zone.timers, 1) if running >> timer & 1 and timer not in remaining]
    old = [0, *stay]
    timers = sorted([*(zone.timers[index - 1] for index in stay), *remaining])
    source = {zone.timers[index - 1]: index for index in stay}
    size = len(timers) + 1
    # Each timer as (row of the old zone, distance from it): a fresh one lies at a fixed distance from zero.
    place = [(0, 0)] + [(source[timer], 0) if timer in source else (0, remaining[timer]) for timer in timers]
    if len(old) == len(zone.timers) + 1 and not remaining:
        return zone
    bounds = [[zone.bounds[place[i][0]][place[j][0]] + 2 * (place[i][1] - place[j][1]) for j in range(size)] for i in range(size)]
    return Zone(tuple(timers), tuple(tuple(row) for row in bounds))


def elapsed(zone: Zone) -> Zone:
    """Some time passes, perhaps none, and no timer comes due."""
    if not zone.timers:
        return zone
    bounds = [list(row) for row in zone.bounds]
    bounds[0] = [1] + [0] * len(zone.timers)
    closed = _close_bounds(bounds)
    assert closed is not None
    return Zone(zone.timers, closed)


def next_due(zone: Zone) -> Iterator[tuple[int, Zone]]:
    """Each set of timers that can come due together and first, as a mask, and the remaining times of the others at that moment.

    In rising order of the masks. A timer is decided only after those above it, and a decision that leaves no point is left at
    once; so the work follows the number of possible sets and not that of all sets."""
    indexes = range(1, len(zone.timers) + 1)
    for highest in indexes:
        bounds = _narrow_bounds(
            zone.bounds, [(highest, index, 0 if index > highest else 1) for index in indexes if index != highest]
        )
        if bounds is not None:
            yield from _with_highest(zone, highest, bounds)


def _with_highest(zone: Zone, highest: int, bounds: Sequence[Sequence[int]]) -> Iterator[tuple[int, Zone]]:
    """The sets in which this timer is the one of the highest number."""
    undecided = [(highest - 1, [highest], bounds)]
    while undecided:
        index, due, bounds = undecided.pop()
        if index == 0:
            rest = [other for other in range(1, len(zone.timers) + 1) if other not in due]
            order = [highest, *rest]
            left = Zone(tuple(zone.timers[other - 1] for other in rest), tuple(tuple(bounds[i][j] for j in order) for i in order))
            yield sum(1 << zone.timers[other - 1] for other in due), left
            continue
        # The last one is taken first: sets without the timer come before those with it.
        if (together := _narrow_bounds(bounds, [(index, highest, 1)])) is not None:
            undecided.append((index - 1, [*due, index], together))
        if (later := _narrow_bounds(bounds, [(highest, index, 0)])) is not None:
            undecided.append((index - 1, due, later))


def _narrow_bounds(bounds: Sequence[Sequence[int]], limits: Iterable[tuple[int, int, int]]) -> Sequence[Sequence[int]] | None:
    """Closed bounds with further limits on x_i - x_j, in closed form again; None if no point satisfies them."""
    for i, j, limit in limits:
        if limit >= bounds[i][j]:
            continue
        if _sum(bounds[j][i], limit) < 1:
            return None
        ends = [_sum(limit, bound) for bound in bounds[j]]
        bounds = [[min(bound, _sum(row[i], end)) for bound, end in zip(row, ends, strict=True)] for row in bounds]
    return bounds


def _sum(first: int, second: int) -> int:
    return ((first >> 1) + (second >> 1)) * 2 + (first & second & 1)


def _close_bounds(bounds: list[list[int]]) -> tuple[tuple[int, ...], ...] | None:
    """The tightest equal bounds, or None if no point satisfies them."""
    size = range(len(bounds))
    for middle in size:
        for i in size:
            first = bounds[i][middle]
            for j in size:
                second = bounds[middle][j]
                # This does what _sum does; a call would take most of the time here.
                through = ((first >> 1) + (second >> 1)) * 2 + (first & second & 1)
                if through < bounds[i][j]:
                    bounds[i][j] = through
    if any(bounds[i][i] < 1 for i in size):
        return None
    return tuple(tuple(row) for row in bounds)


@dataclass(frozen=True, slots=True)
class Moment:
    """What one input of a trace demands of time: which timers it was made by, which ran on, which it started."""

    due: int
    live_before: int
    started: Mapping[int, int]


def schedule(initial: Mapping[int, int], moments: Sequence[Moment], *, at_once: bool) -> list[int]:
    """The earliest times (µs after the start) at which a trace of moments can happen.

    `initial` are the remaining times at the start; `at_once` puts the first moment at the start itself."""
    times = [0] * (len(moments) + 1)
    least: list[tuple[int, int, int]] = []
    since = {timer: (0, duration) for timer, duration in initial.items()}
    for number, moment in enumerate(moments, 1):
        least.append((number, number - 1, 0))
        if at_once and number == 1:
            least.append((0, 1, 0))
        for timer, (start, duration) in since.items():
            if moment.due >> timer & 1:
                least += [(number, start, duration), (start, number, -duration)]
            elif moment.live_before >> timer & 1:
                least.append((start, number, 1 - duration))
        since = {timer: start for timer, start in since.items() if moment.live_before & ~moment.due & (1 << timer)}
        since |= {timer: (number, duration) for timer, duration in moment.started.items()}
    # Usually two rounds; as many as there are moments if deadlines push each other along.
    for _ in times:
        before = list(times)
        for later, earlier, gap in least:
            times[later] = max(times[later], times[earlier] + gap)
        if times == before:
            break
    return [time - times[0] for time in times]


CONFIGURATIONS_MAX = 20_000
SITUATIONS_MAX = 20_000
STEPS_PER_CONFIGURATION_MAX = 50
_Units = tuple[tuple[int, ...], ...]
_HINT = "compare or check smaller parts of the pattern, or raise the limit"


@dataclass(frozen=True, slots=True)
class Input:
    """A class of events, by one symbol per alphabet of each table, or the timers that come due (`symbols` empty)."""

    symbols: tuple[tuple[int, ...], ...]
    example: Example | None
    due: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """The transition on one input: the tokens of each table, the timers started, the configuration after it, and the labels that each
    table records and empties."""

    input: Input
    tokens: tuple[tuple[str, ...], ...]
    started: int
    target: int
    kept: tuple[tuple[list[int], list[int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    units: _Units
    zone: Zone


class Space:
    """Configurations, explored on demand from the start of an instance or from given states at the time `now`."""

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        states: Sequence[TableState] | None = None,
        now: int = 0,
        limit: int = CONFIGURATIONS_MAX,
        budget: Budget | None = None,
        possible_only: bool = False,
    ) -> None:
        self.tables = tuple(tables)
        self._budget = budget or Budget(ANALYSIS_STEPS_MAX)
        self._units = sum(len(table.units) for table in tables)
        self._limit = limit
        self._fresh = states is None
        self._offsets = [sum(len(table.timers) for table in tables[:number]) for number in range(len(tables))]
        self._durations = [duration for table in tables for duration in table.timers]
        self.events = joint_inputs(self.tables, budget=self._budget, possible_only=possible_only)
        started_timers = [start_state(table, 0) for table in tables] if states is None else list(states)
        self._initial = {
            offset + timer: deadline - (0 if states is None else now)
            for offset, state in zip(self._offsets, started_timers, strict=True)
            for timer, deadline in enumerate(state.deadlines)
            if deadline is not None
        }
        first = Configuration(tuple(state.units for state in started_timers), started(EMPTY_ZONE, self._initial, 0))
        self.configurations = [first]
        # A fresh start is like no later visit of the same configuration: nothing can be due before the first event.
        self._numbers: dict[Configuration, int] = {} if self._fresh else {first: 0}
        self._reached_by: list[tuple[int, Edge] | None] = [None]
        self._edges: dict[int, tuple[Edge, ...]] = {}
        self._steps = 0

    def edges(self, number: int) -> tuple[Edge, ...]:
        if number not in self._edges:
            self._edges[number] = tuple(self._expand(number))
        return self._edges[number]

    def walk(self) -> Iterator[tuple[int, Edge]]:
        """Every edge of the space, nearest first."""
        for number, edges in enumerate(self.all_edges()):
            for edge in edges:
                yield number, edge

    def all_edges(self) -> Iterator[tuple[Edge, ...]]:
        """The edges of every configuration, by its number."""
        number = 0
        while number < len(self.configurations):
            yield self.edges(number)
            number += 1

    def search(self, goal: Callable[[Edge], bool]) -> Trace | None:
        """The shortest trace whose last transition fulfils `goal`."""
        return next((self.trace(number, edge) for number, edge in self.walk() if goal(edge)), None)

    def trace(self, number: int, last: Edge | None = None) -> Trace:
        """The trace to a configuration, with one more transition if given, at the earliest possible times."""
        path: list[tuple[int, Edge]] = [] if last is None else [(number, last)]
        while (previous := self._reached_by[number]) is not None:
            path.append(previous)
            number = previous[0]
        path.reverse()
        moments = [self._moment(before, edge) for before, edge in path]
        times = schedule(self._initial, moments, at_once=self._fresh)[1:]
        return Trace(tuple(self._step(before, edge, time) for (before, edge), time in zip(path, times, strict=True)))

    def _expand(self, number: int) -> Iterator[Edge]:
        configuration = self.configurations[number]
        fresh = self._fresh and number == 0
        zone = configuration.zone if fresh else elapsed(configuration.zone)
        for input_ in self.events:
            self._count_step(zone)
            yield self._edge(number, input_, zone)
        if fresh:
            # The instance begins at its first event's time, when no timer can be due yet.
            return
        for due, left in next_due(configuration.zone):
            self._count_step(configuration.zone)
            yield self._edge(number, Input((), None, due), left)

    def _count_step(self, zone: Zone) -> None:
        # Bringing a zone to its closed form takes the cube of its timers.
        self._budget.spend(4 + self._units + (len(zone.timers) + 1) ** 3 // 8)
        # Few configurations can have many inputs: of timers that were started independently, every set may come due together.
        self._steps += 1
        allowed = self._limit * STEPS_PER_CONFIGURATION_MAX
        if self._steps > allowed:
            raise StateLimitExceeded("the analysis", needed=self._steps, allowed=allowed, hint=_HINT, unit="steps")

    def _edge(self, number: int, input_: Input, zone: Zone) -> Edge:
        units: list[tuple[int, ...]] = []
        tokens: list[tuple[str, ...]] = []
        kept: list[tuple[list[int], list[int]]] = []
        started_timers = running = 0
        for index, (table, offset) in enumerate(zip(self.tables, self._offsets, strict=True)):
            symbols = input_.symbols[index] if input_.symbols else None
            due = input_.due >> offset & (1 << len(table.timers)) - 1
            after, pushed, fresh = step_units(table.units, table.actions, self.configurations[number].units[index], symbols, due)
            units.append(after)
            tokens.append(table.pushed(pushed))
            kept.append((table.recorded(pushed), table.cleared(fresh)))
            # Bits after the timers are registers.
            started_timers |= (fresh & (1 << len(table.timers)) - 1) << offset
            running |= live_timers(table.units, after) << offset
        zone = started(zone, self._remaining(started_timers), running)
        target = Configuration(tuple(units), zone)
        edge = Edge(input_, tuple(tokens), started_timers, self._numbers.get(target, len(self.configurations)), tuple(kept))
        if edge.target == len(self.configurations):
            self._numbers[target] = edge.target
            self.configurations.append(target)
            self._reached_by.append((number, edge))
            if len(self.configurations) > self._limit:
                needed = len(self.configurations)
                raise StateLimitExceeded("the analysis", needed=needed, allowed=self._limit, hint=_HINT)
        return edge

    def _remaining(self, mask: int) -> Mapping[int, int]:
        return {timer: duration for timer, duration in enumerate(self._durations) if mask >> timer & 1}

    def _moment(self, before: int, edge: Edge) -> Moment:
        live = sum(1 << timer for timer in self.configurations[before].zone.timers)
        return Moment(edge.input.due, live, self._remaining(edge.started))

    def _step(self, before: int, edge: Edge, time: int) -> TraceStep:
        outputs = tuple(Output(token, time) for token in edge.tokens[0])
        if edge.input.example is None:
            return TraceStep(None, (), time, outputs)
        type_ = edge.input.example.type
        shown = self._unnamed() if type_ is None else type_
        return TraceStep(shown, edge.input.example.truths, time, outputs, self._is_by_type(before, edge, type_))

    def _is_by_type(self, before: int, edge: Edge, type_: str | None) -> bool:
        """Whether every event of the type does the same as this edge, whatever its conditions say."""
        own = [
            [set(leaves(alphabet.types.get(type_ or "", alphabet.other))) for alphabet in table.alphabets]
            for table in self.tables
        ]
        return all(
            (other.tokens, other.started, other.target) == (edge.tokens, edge.started, edge.target)
            for other in self.edges(before)
            if other.input.symbols
            and all(
                symbol in possible
                for sets, symbols in zip(own, other.input.symbols, strict=True)
                for possible, symbol in zip(sets, symbols, strict=True)
            )
        )

    def _unnamed(self) -> str:
        named = {event.example.type for event in self.events if event.example is not None}
        return next(name for name in ("other", *(f"other_{n}" for n in range(len(named) + 1))) if name not in named)


def joint_inputs(tables: Sequence[Table], *, budget: Budget | None = None, possible_only: bool = False) -> tuple[Input, ...]:
    """The classes of events that the tables together tell apart, plainest examples first.

    `possible_only`: without answers of conditions that exclude each other, such as `v > 10` and not `v > 5`."""
    if not possible_only and len(tables) == 1 and len(tables[0].alphabets) == 1:
        (alphabet,) = tables[0].alphabets
        return tuple(Input(((symbol,),), example) for symbol, example in enumerate(alphabet.examples))
    inputs: dict[tuple[tuple[int, ...], ...], Input] = {}
    for situation, symbols in situations_of(tables, budget=budget, possible_only=possible_only):
        inputs.setdefault(symbols, Input(symbols, Example(situation.type, situation.truths)))
    return tuple(inputs.values())


def situations_of(
    tables: Sequence[Table], *, budget: Budget | None = None, possible_only: bool = False
) -> list[tuple[Situation, tuple[tuple[int, ...], ...]]]:
    """Every situation of the tables' predicates together, plainest first, and its symbols in each table."""
    numbers: dict[Predicate, int] = {}
    for table in tables:
        for predicate in table.predicates:
            numbers.setdefault(predicate, len(numbers))
    try:
        situations = Situations(list(numbers), situations_max=SITUATIONS_MAX, budget=budget).for_predicates(
            (1 << len(numbers)) - 1
        )
    except TooWide:
        needed, allowed = SITUATIONS_MAX + 1, SITUATIONS_MAX
        raise StateLimitExceeded("telling events apart", needed=needed, allowed=allowed, hint=_HINT) from None
    if possible_only:
        situations = possible_situations(situations, list(numbers))
    plainest = sorted(situations, key=attrgetter("unknowns"))
    return [(s, tuple(_symbols(table, numbers, s.type, s.vector) for table in tables)) for s in plainest]


def _symbols(table: Table, numbers: Mapping[Predicate, int], type_: str | None, vector: int) -> tuple[int, ...]:
    def predicate_holds(number: int) -> bool:
        return bool(vector >> numbers[table.predicates[number]] & 1)

    # No event type has an empty name, so it finds the tree of any other type.
    return tuple(alphabet.symbol(type_ or "", predicate_holds) for alphabet in table.alphabets)
