"""The database as an engine of the ECL corpus: patterns run as correlators over rows of a real log.

Promises: an event takes its usual way (classified, stepped, delivered), and nothing is left behind: everything happens in one
transaction that is rolled back, in a namespace of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from headrace.correlators.batches import Stepper, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator
from headrace.correlators.instances import moment_at
from headrace.db import AsyncConnection, query
from headrace.lang.condition import Subject, jsonb_text, micros_of
from headrace.lang.ecl import (
    Case,
    Event,
    Observation,
    TableState,
    difference,
    from_json,
    outputs_by_event,
    read_captured,
    status_of,
)

_START = micros_of(datetime(2001, 1, 1, tzinfo=UTC))
_GAP_US = 86_400_000_000


@dataclass(frozen=True)
class Run:
    """A pattern, events for it (with subjects of the condition language), and a silence after the last one."""

    pattern: str
    events: Sequence[Event]
    silence_us: int = 0


async def run_cases(conn: AsyncConnection, cases: Sequence[Case]) -> list[str | None]:
    """The difference between the database's answers and those of each case, or None."""
    observations = await observe(conn, [Run(case.pattern, case.events) for case in cases])
    return [difference(case, "database", answer) for case, answer in zip(cases, observations, strict=True)]


async def observe(conn: AsyncConnection, runs: Sequence[Run]) -> list[Observation]:
    """Runs patterns in the database, each over its own events, and rolls back."""
    observations: list[Observation] = []
    topic = _CorpusTopic(conn, runs)
    async with conn.transaction():
        await topic.create()
        for number in range(len(runs)):
            observations.append(await topic.observe(number))
        raise psycopg.Rollback
    return observations


class _CorpusTopic:
    """A topic whose log holds the events of all runs, one run after the other in position and in time."""

    def __init__(self, conn: AsyncConnection, runs: Sequence[Run]) -> None:
        self._conn = conn
        self._runs = runs
        self._name = f"ecl_{uuid4().hex[:12]}"
        self._stepper = Stepper()
        self._before: list[int] = []
        """The position before each run's first event."""
        self._shift_us: list[int] = []
        """How far each run's time is shifted: the time of a log never goes back."""
        self._watched: dict[str, WatchedCorrelator] = {}

    async def create(self) -> None:
        await self._conn.execute("select headrace.create_namespace(%s)", (self._name,))
        await self._conn.execute(
            "update headrace_internal.namespace set unknown_names = 'allow' where namespace = %s", (self._name,)
        )
        cursor = await self._conn.execute("select headrace.create_topic(%s, p_namespace => %s)", (self._name, self._name))
        topic_id = int((await cursor.fetchone() or (0,))[0])
        await self._make_one_partition(topic_id)
        await self._copy_events(topic_id)
        parameters = {
            "namespace": self._name,
            "names": [f"run{number}" for number in range(len(self._runs))],
            "patterns": [run.pattern for run in self._runs],
            "positions": self._before,
        }
        for (correlator_id,) in await (await self._conn.execute(query("correlators/corpus_correlators"), parameters)).fetchall():
            await compile_correlator(self._conn, correlator_id)
        await self._conn.execute(query("correlators/corpus_cursors"), parameters)
        async with self._conn.cursor(row_factory=class_row(WatchedCorrelator)) as watched:
            rows = await (await watched.execute(query("correlators/watched_correlators"))).fetchall()
        self._watched = {row.correlator: row for row in rows if row.namespace == self._name}

    async def _make_one_partition(self, topic_id: int) -> None:
        """The runs have any time, so the log gets one time partition for all of it."""
        log = f"log_{topic_id}"
        partitions = await self._conn.execute("select p.name::text from headrace.time_partitions(%s) p", (topic_id,))
        for (partition,) in await partitions.fetchall():
            await self._conn.execute(sql.SQL("drop table {}").format(sql.Identifier(*partition.split("."))))
        whole, parent = (sql.Identifier("headrace_internal", name) for name in (f"{log}_all", log))
        statement = sql.SQL("create table {} partition of {} for values from (minvalue) to (maxvalue)")
        await self._conn.execute(statement.format(whole, parent))
        await self._conn.execute("select headrace_internal.attach_log(%s)", (topic_id,))

    async def _copy_events(self, topic_id: int) -> None:
        position, now = 0, _START
        async with self._conn.cursor() as cursor, cursor.copy(query("correlators/corpus_copy")) as copy:
            for run in self._runs:
                first, last = (run.events[0].time, run.events[-1].time) if run.events else (0, 0)
                self._before.append(position)
                self._shift_us.append(now - first)
                for event in run.events:
                    position += 1
                    subject = cast(Subject, event.subject)
                    times = moment_at(event.time + self._shift_us[-1]), subject.emitted_at
                    texts = event.type, subject.key, jsonb_text(subject.payload), jsonb_text(dict(subject.headers))
                    await copy.write_row((position, *times, topic_id, 0, uuid4(), *texts))
                now += last - first + run.silence_us + _GAP_US

    async def observe(self, number: int) -> Observation:
        run, shift_us = self._runs[number], self._shift_us[number]
        watched = self._watched.get(f"run{number}")
        if watched is None:
            error = await self._fetch("correlators/corpus_error", namespace=self._name, name=f"run{number}")
            raise AssertionError(f"{run.pattern}: {error[0][0] if error else 'not compiled'}")
        if run.events:
            await self._stepper.step(self._conn, watched, len(run.events))
            if run.silence_us and not watched.simple:
                end = moment_at(run.events[-1].time + run.silence_us + shift_us)
                await self._stepper.fire(self._conn, watched, end)
        before = self._before[number] + 1
        rows = await self._fetch("correlators/corpus_outputs", version_id=watched.version_id)
        outputs = outputs_by_event(
            run.events,
            [
                (None if position is None else position - before, micros_of(at) - shift_us, token)
                for position, at, token, _ in rows
            ],
        )
        ((compiled, units),) = await self._fetch("correlators/corpus_state", correlator_id=watched.correlator_id)
        table = from_json(compiled)
        status = status_of(table, TableState(tuple(units) if units is not None else table.start_units))
        return Observation(outputs[:-1], status, outputs[-1], read_captured(row[3] for row in rows))

    async def _fetch(self, statement: str, /, **parameters: str | int) -> list[tuple[Any, ...]]:
        return await (await self._conn.execute(query(statement), parameters)).fetchall()
