"""Patterns that keep a value, against the same pattern without one, over the same events.

In the database: the consumer as a whole, from the log to instances, outputs, actions and cursor, as in `correlate`. On Spark: `correlate`
over a frame of events. The register is read on every transfer, and written on a third of the events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.correlate import KEYS, PATTERN, PUBLISH
from bench.lab import Lab, settle, surroundings
from bench.result import Round, Side, ratio, report
from bench.spark import folder, run_through, spark_session, timed
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, WatchedCorrelator, create_correlator
from headrace.db import Connection, StopSignal, Subscription, Target, connect, create_pool
from headrace.log.topics import sequence
from headrace.spark import CorrelatorSpec, correlate

TARGET = 0.3
REGISTER = """capture amount = (object -> 'amount')::bigint;
repeat {push(alarm) {do {sequential {login.failed, login.failed, login.failed as last, transfer and <amount + last.amount >= 0>}}
    unless {login.ok}}}"""
PATTERNS = {"without": PATTERN, "with one register": REGISTER}
EVENTS = """
select concat('k', cast(floor(rand(1) * {keys}) as int)) as key,
    element_at(array('login.failed', 'login.failed', 'login.failed', 'login.ok', 'login.ok', 'login.ok', 'transfer', 'page.view'),
        1 + cast(floor(rand(2) * 8) as int)) as type, concat('{{"amount": ', id, '}}') as payload,
    'bench' as topic, 0 as partition, id as offset, timestamp_micros(id * 100) as timestamp, uuid() as event_id,
    '{{}}' as headers, 'main' as shard, timestamp_micros(id * 100) as appended_at
from range(1, {rows} + 1, 1, 8)"""


@dataclass(frozen=True)
class Plan:
    events: int
    rows: int
    rounds: int


FULL = Plan(events=200_000, rows=2_000_000, rounds=3)
QUICK = Plan(events=50_000, rows=200_000, rounds=2)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    with lab.database("registers", partitions=1) as target:
        stored = asyncio.run(_in_database(lab, target, plan))
    spark = _on_spark(plan)
    figures = [
        ratio("database: one register : without", stored["with one register"], stored["without"], TARGET),
        ratio("Spark: one register : without", spark["with one register"], spark["without"], TARGET),
    ]
    raw: dict[str, object] = {f"database, {name}": side for name, side in stored.items()}
    raw |= {f"Spark, {name}": side for name, side in spark.items()}
    report("registers", conditions, figures, raw | {"patterns": PATTERNS, "keys": KEYS})


async def _in_database(lab: Lab, target: Target, plan: Plan) -> dict[str, Side]:
    sides = {name: Side(name, []) for name in PATTERNS}
    own = create_pool(target, size=1)
    await own.open()
    engine = CorrelatorEngine(own, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    with connect(target) as conn:
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        alarm = {"alarm": ActionOutput(action="ALARM")}
        for number, pattern in enumerate(PATTERNS.values()):
            create_correlator(conn, Correlator(name=f"c{number}", topic="bench", key="key", pattern=pattern, outputs=alarm))
            await engine.compile_once()
        watched = sorted(await engine.watched(), key=lambda correlator: correlator.correlator)
        for number in range(plan.rounds + 1):
            _publish(conn, plan.events)
            turns = list(zip(PATTERNS, watched, strict=True))
            for name, correlator in turns if number % 2 else reversed(turns):
                round_ = await _consume(lab, conn, engine, correlator, plan.events)
                if number:  # The first round warms caches and plans.
                    sides[name].rounds.append(round_)
        counts = conn.execute("select correlator, count(*) from headrace.correlation_history group by 1 order by 1").fetchall()
        assert len(counts) == len(PATTERNS) and counts[0][1] == counts[1][1] > 0, counts
    await own.close()
    return sides


def _publish(conn: Connection, events: int) -> None:
    conn.execute(PUBLISH, {"keys": KEYS, "events": events})
    while sequence(conn):
        pass
    conn.execute("vacuum analyze headrace_internal.log")


async def _consume(lab: Lab, conn: Connection, engine: CorrelatorEngine, watched: WatchedCorrelator, events: int) -> Round:
    settle(conn)
    start, cpu = time.perf_counter(), _cpu_s(lab)
    passed = 0
    while done := await engine.step_once(watched):
        passed += done.events
    assert passed == events, passed
    return Round(events / (time.perf_counter() - start), 1e6 * (_cpu_s(lab) - cpu) / events)


def _cpu_s(lab: Lab) -> float:
    """Of the server and of this process, which steps what the server does not."""
    return lab.cpu_s() + time.process_time()


def _on_spark(plan: Plan) -> dict[str, Side]:
    sides = {name: Side(name, []) for name in PATTERNS}
    with spark_session() as spark, folder() as place:
        path = str(place / "events")
        spark.sql(EVENTS.format(rows=plan.rows, keys=KEYS)).write.parquet(path)
        events = spark.read.parquet(path)
        frames = {
            name: correlate(events, CorrelatorSpec(name="bench", pattern=text, key="key")) for name, text in PATTERNS.items()
        }
        counts = {frame.count() for frame in frames.values()}
        assert len(counts) == 1 and counts != {0}, counts
        for number in range(plan.rounds + 1):
            for name, frame in list(frames.items())[:: 1 if number % 2 else -1]:
                work: Callable[[], None] = lambda frame=frame: run_through(frame)  # noqa: E731
                round_ = timed(plan.rows, work)
                if number:  # The first round warms Java up.
                    sides[name].rounds.append(round_)
    return sides
