"""The database as an engine of the ECL corpus: patterns run as correlators over real rows of a log.

Promises: an event goes the way it goes in life (classified, stepped, delivered), and nothing is left behind: it all happens in
one transaction that is rolled back, in a namespace of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from headrace.correlators.batches import Stepper, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator
from headrace.correlators.instances import from_us, to_us
from headrace.db import AsyncConnection, query
from headrace.lang.condition import Subject, jsonb_text
from headrace.lang.ecl import Case, Event, Output, Status, TableState, difference, from_json, status_of

_BASE = to_us(datetime(2001, 1, 1, tzinfo=UTC))
_GAP_US = 86_400_000_000


@dataclass(frozen=True)
class Run:
    """A pattern, events for it (their subjects are those of the condition language), and a silence after the last one."""

    pattern: str
    events: Sequence[Event]
    silence_us: int = 0


@dataclass(frozen=True)
class Observed:
    """What was seen: outputs per event (those of timers due by it first), those in the silence, and the status at the end."""

    outputs: tuple[tuple[Output, ...], ...]
    late: tuple[Output, ...]
    status: Status


async def run_cases(conn: AsyncConnection, cases: Sequence[Case]) -> list[str | None]:
    """What differs from each case's answers when the database runs it, or None."""
    seen = await observe(conn, [Run(case.pattern, case.events) for case in cases])
    return [difference(case, "database", one.outputs, one.status) for case, one in zip(cases, seen, strict=True)]


async def observe(conn: AsyncConnection, runs: Sequence[Run]) -> list[Observed]:
    """Runs patterns in the database, each over its own events, and rolls back."""
    seen: list[Observed] = []
    stage = _Stage(conn, runs)
    async with conn.transaction():
        await stage.build()
        for number in range(len(runs)):
            seen.append(await stage.observe(number))
        raise psycopg.Rollback
    return seen


class _Stage:
    """A topic whose log holds the events of all runs, one run after the other in position and in time."""

    def __init__(self, conn: AsyncConnection, runs: Sequence[Run]) -> None:
        self._conn = conn
        self._runs = runs
        self._name = f"ecl_{uuid4().hex[:12]}"
        self._stepper = Stepper()
        self._before: list[int] = []
        """The position before each run's first event."""
        self._shift_us: list[int] = []
        """How far each run's time is moved: the log's time never goes back."""
        self._watched: dict[str, WatchedCorrelator] = {}

    async def build(self) -> None:
        await self._conn.execute("select headrace.create_namespace(%s)", (self._name,))
        await self._conn.execute("update headrace.namespace set unknown_names = 'allow' where namespace = %s", (self._name,))
        made = await self._conn.execute("select headrace.create_topic(%s, p_namespace => %s)", (self._name, self._name))
        topic_id = int((await made.fetchone() or (0,))[0])
        await self._one_partition(topic_id)
        await self._fill(topic_id)
        given = {
            "namespace": self._name,
            "names": [f"run{number}" for number in range(len(self._runs))],
            "patterns": [run.pattern for run in self._runs],
            "positions": self._before,
        }
        for (correlator_id,) in await (await self._conn.execute(query("correlators/corpus_correlators"), given)).fetchall():
            await compile_correlator(self._conn, correlator_id)
        await self._conn.execute(query("correlators/corpus_cursors"), given)
        async with self._conn.cursor(row_factory=class_row(WatchedCorrelator)) as cursor:
            found = await (await cursor.execute(query("correlators/watched_correlators"))).fetchall()
        self._watched = {one.correlator: one for one in found if one.namespace == self._name}

    async def _one_partition(self, topic_id: int) -> None:
        """The runs are of any time, so the log has one time partition for all of it."""
        log = sql.Identifier("headrace_internal", f"log_{topic_id}")
        parts = await self._conn.execute(query("correlators/corpus_partitions"), {"log": f"headrace_internal.log_{topic_id}"})
        for (part,) in await parts.fetchall():
            await self._conn.execute(sql.SQL("drop table {}").format(sql.Identifier("headrace_internal", part)))
        whole = sql.Identifier("headrace_internal", f"log_{topic_id}_all")
        create = sql.SQL("create table {} partition of {} for values from (minvalue) to (maxvalue)")
        await self._conn.execute(create.format(whole, log))

    async def _fill(self, topic_id: int) -> None:
        position, now = 0, _BASE
        async with self._conn.cursor() as cursor, cursor.copy(query("correlators/corpus_copy")) as copy:
            for run in self._runs:
                begin = run.events[0].time if run.events else 0
                self._before.append(position)
                self._shift_us.append(now - begin)
                for event in run.events:
                    position += 1
                    at = from_us(event.time + self._shift_us[-1])
                    subject = cast(Subject, event.subject)
                    payload, headers = jsonb_text(subject.payload), jsonb_text(dict(subject.headers))
                    emitted_at = subject.emitted_at
                    await copy.write_row(
                        (position, at, emitted_at, topic_id, 0, uuid4(), event.type, subject.key, payload, headers)
                    )
                end = run.events[-1].time if run.events else begin
                now += end - begin + run.silence_us + _GAP_US

    async def observe(self, number: int) -> Observed:
        run, name, shift_us = self._runs[number], f"run{number}", self._shift_us[number]
        watched = self._watched.get(name)
        if watched is None:
            row = await (
                await self._conn.execute(query("correlators/corpus_error"), {"namespace": self._name, "name": name})
            ).fetchone()
            raise AssertionError(f"{run.pattern}: {row[0] if row else 'not compiled'}")
        if run.events:
            await self._stepper.step(self._conn, watched, len(run.events))
        if run.silence_us and run.events and not watched.simple:
            await self._stepper.fire(self._conn, watched, from_us(run.events[-1].time + run.silence_us + shift_us))
        found = {"version_id": watched.version_id}
        rows = await (await self._conn.execute(query("correlators/corpus_outputs"), found)).fetchall()
        outputs: list[list[Output]] = [[] for _ in range(len(run.events) + 1)]
        for position, at, token in rows:
            time = to_us(at) - shift_us
            by_time = sum(event.time < time for event in run.events)
            outputs[by_time if position is None else position - 1 - self._before[number]].append(Output(token, time))
        status = await self._status(watched)
        return Observed(tuple(map(tuple, outputs[:-1])), tuple(outputs[-1]), status)

    async def _status(self, watched: WatchedCorrelator) -> Status:
        row = await (
            await self._conn.execute(query("correlators/corpus_state"), {"correlator_id": watched.correlator_id})
        ).fetchone()
        assert row is not None
        table = from_json(row[0])
        return status_of(table, TableState(tuple(row[1]) if row[1] is not None else table.start_units))
