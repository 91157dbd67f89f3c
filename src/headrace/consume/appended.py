"""Appended events: what this node's own sequencer has just appended to a topic, waiting for the workers of one consumer.

Owns: which of them no worker has taken yet. Promises: the events of a cursor are taken in order and without a gap, and not while a worker
has earlier ones; there are never more than a stated number. They are only a copy: whatever is dropped here is in the log, behind the
cursor, and is claimed there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.drivers import EventRows
from headrace.log.topics import AppendedEvents

WAITING_MAX, BYTES_MAX = 2000, 16 * 1024 * 1024
"""Events that wait at most, and the bytes of the steps that they came with. A step hands over at most 1 000 events and 1 MB of a topic."""


@dataclass(frozen=True, slots=True)
class RowSlice:
    """Rows of a statement, from `start` up to, not including, `end`."""

    rows: EventRows
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AppendedRun:
    """Events of one cursor that follow each other."""

    partition: int
    """-1: the cursor over the whole topic."""
    position: int
    """Where the cursor stands if nothing was before them that is not handled."""
    events: Sequence[tuple[AppendedEvents, int]]
    """Each with its row."""

    @property
    def erasures(self) -> int:
        return self.events[0][0].erasures

    @property
    def server(self) -> str:
        return self.events[0][0].server

    def slices(self, *, raw: bool) -> Iterator[RowSlice]:
        """The rows of the events, in order."""
        start = 0
        breaks = [
            number
            for number, ((step, row), (next_step, next_row)) in enumerate(pairwise(self.events), 1)
            if next_step is not step or next_row != row + 1
        ]
        for end in (*breaks, len(self.events)):
            step, row = self.events[start]
            yield RowSlice(step.raw_rows if raw else step.rows, row, row + end - start)
            start = end

    @property
    def upto(self) -> int:
        """The position of the last event."""
        step, row = self.events[-1]
        return step.rows.position(row)


class AppendedQueue:
    """The events that wait for the workers of one consumer on this node."""

    def __init__(self, *, is_by_topic: bool) -> None:
        """`is_by_topic`: the consumer has one cursor over the whole topic."""
        self._is_by_topic = is_by_topic
        self._runs: dict[int, AppendedRun] = {}
        self._busy: set[int] = set()
        self._size = self._bytes = 0
        """Events that wait, and the bytes of all steps since none waited."""

    def add(self, appended: AppendedEvents) -> bool:
        """Adds the events of a step. False, and nothing waits any more, if they do not follow what waits or if they are too many."""
        self._bytes = appended.bytes + (self._bytes if self._runs else 0)
        if self._bytes > BYTES_MAX:
            steps = {id(step): step.bytes for run in self._runs.values() for step, _ in run.events}
            self._bytes = appended.bytes + sum(steps.values())
            if self._bytes > BYTES_MAX:
                return self.clear()
        rows: dict[int, list[tuple[AppendedEvents, int]]] = {}
        for number, partition in enumerate(appended.partitions):
            rows.setdefault(-1 if self._is_by_topic else partition, []).append((appended, appended.start + number))
        for partition, events in rows.items():
            position = appended.before.get(partition)
            waiting = self._runs.get(partition)
            if position is None or self._size + len(events) > WAITING_MAX:
                return self.clear()
            if waiting is None:
                self._runs[partition] = AppendedRun(partition, position, events)
            elif (waiting.erasures, waiting.server, waiting.upto) == (appended.erasures, appended.server, position):
                self._runs[partition] = AppendedRun(partition, waiting.position, [*waiting.events, *events])
            else:
                return self.clear()
            self._size += len(events)
        return True

    def clear(self) -> bool:
        """Drops what waits; always False."""
        self._runs.clear()
        self._size = 0
        return False

    @property
    def is_ready(self) -> bool:
        """True if there are events that a worker may take now."""
        return any(partition not in self._busy for partition in self._runs)

    def take(self, events_max: int, partitions_max: int) -> list[AppendedRun]:
        """Takes events of cursors that no worker has in hand, up to a maximum, for one worker. It has to `release` their partitions."""
        runs: list[AppendedRun] = []
        for partition in [partition for partition in self._runs if partition not in self._busy]:
            if events_max <= 0 or len(runs) == partitions_max:
                break
            run = self._runs.pop(partition)
            # Only events of the same step can be claimed by one statement if something was erased between.
            if runs and (runs[0].erasures, runs[0].server) != (run.erasures, run.server):
                self._runs[partition] = run
                continue
            if len(run.events) > events_max:
                taken = AppendedRun(partition, run.position, run.events[:events_max])
                self._runs[partition] = AppendedRun(partition, taken.upto, run.events[events_max:])
                run = taken
            events_max -= len(run.events)
            self._size -= len(run.events)
            self._busy.add(partition)
            runs.append(run)
        return runs

    def release(self, partitions: Collection[int], *, is_handled: bool) -> None:
        """A worker has no events of these partitions in hand any more. Unless it has handled them, those behind them are dropped, too."""
        self._busy.difference_update(partitions)
        for partition in () if is_handled else partitions:
            if (run := self._runs.pop(partition, None)) is not None:
                self._size -= len(run.events)
