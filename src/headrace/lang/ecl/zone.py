"""Zones: all the times that running timers can still have left, exactly, as bounds on differences.

Analyses walk over untimed inputs. Which timers can come due first, or together, depends on when they were started; a
zone keeps the possible remaining times of the running timers, so that an analysis neither misses nor invents a firing.

Row and column 0 stand for the number zero, the others for the running timers in rising order. `bounds[i][j]` limits
x_i - x_j: 2c+1 means ≤ c, 2c means < c."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Zone:
    """Remaining times of `timers`. Every zone handed out holds at least one point and is in closed form."""

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
    closed = _closed(bounds)
    assert closed is not None
    return Zone(zone.timers, closed)


def next_due(zone: Zone) -> Iterator[tuple[int, Zone]]:
    """Each set of timers that can come due together and first, as a mask, and the remaining times of the others at that moment.

    In rising order of the masks. A timer is decided only after those above it, and a decision that leaves no point is left at
    once; so the work follows the number of possible sets and not that of all sets."""
    indexes = range(1, len(zone.timers) + 1)
    for highest in indexes:
        bounds = _narrowed(zone.bounds, [(highest, index, 0 if index > highest else 1) for index in indexes if index != highest])
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
        if (together := _narrowed(bounds, [(index, highest, 1)])) is not None:
            undecided.append((index - 1, [*due, index], together))
        if (later := _narrowed(bounds, [(highest, index, 0)])) is not None:
            undecided.append((index - 1, due, later))


def _narrowed(bounds: Sequence[Sequence[int]], limits: Iterable[tuple[int, int, int]]) -> Sequence[Sequence[int]] | None:
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


def _closed(bounds: list[list[int]]) -> tuple[tuple[int, ...], ...] | None:
    """The tightest equal bounds, or None if no point satisfies them."""
    size = range(len(bounds))
    for middle in size:
        for i in size:
            first = bounds[i][middle]
            for j in size:
                second = bounds[middle][j]
                # As _sum does; a call would take most of the time here.
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
