"""The pipeline: a correlator over a topic, on Spark with local[2], with everything that makes it exactly once.

`streaming correlate`: a full log is caught up with, batch by batch: from the log to states, outputs, actions, cursor and ledger.
`cost per event`: the same in the first and in the last third of a long log. `latency`: a producer publishes 1 000 events a
second, a sequencer runs, and the time is taken from an event's publication to the commit of the batch that handled it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, report
from bench.spark_source import _process_tree
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection, StopSignal, Target, connect
from headrace.log.topics import sequence
from headrace.spark import Access, session
from headrace.spark.pipeline import BatchDone, Pipeline, TopicPipeline, set_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE_MIN = 250_000.0
LATENCY_MAX_MS = 250.0
FLAT_MAX = 1.1
PATTERN = """repeat {push(alarm) {do {sequential {login.failed, login.failed, login.failed, transfer}} unless {login.ok}}}"""
FILL = """
insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers)
select n, now(), now(), t.topic_id, 0, gen_random_uuid(),
    (array['login.failed', 'login.failed', 'login.failed', 'login.ok', 'login.ok', 'login.ok', 'transfer', 'page.view'])
        [1 + floor(random() * 8)::int], 'account-' || floor(random() * %(keys)s)::int,
    jsonb_build_object('amount', n, 'browser', 'Netscape', 'note', repeat('x', 60)), '{}'
from headrace.topic t, generate_series(%(first)s::int, %(last)s::int) n where t.topic = 'bench'"""
FILL_STEP = 250_000
WHY = (
    "compare load_average_before and _after with the number of CPUs: on a machine that others use, wall-clock figures say little "
    "about the pipeline. CPU per event is the steadier figure; what an idle machine gives has to be measured on one."
)
MILLION = 1_000_000


@dataclass(frozen=True)
class Plan:
    events: int
    """In all; the first and the last third of the batches are compared."""
    keys: tuple[int, ...]
    batch: int
    latency_s: int


FULL = Plan(events=10 * MILLION, keys=(10_000, 100_000), batch=MILLION, latency_s=30)
QUICK = Plan(events=400_000, keys=(10_000,), batch=40_000, latency_s=5)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    spark = session(master="local[2]", settings={"spark.driver.memory": "3g"})
    sides: dict[str, Side] = {}
    with tempfile.TemporaryDirectory() as folder:
        for keys in plan.keys:
            # Flatness is of the fewer keys; with more of them the first batches have states yet to be made.
            events = plan.events if keys == plan.keys[0] else min(plan.events, 3 * MILLION)
            with _topic(lab, f"pipeline_{keys}", Path(folder)) as (target, access):
                # One batch after the other, to compare them; or a backlog, in which Spark works ahead while a batch is written.
                steps = events // plan.batch if keys == plan.keys[0] else 1
                sides[f"{keys} keys"] = _catch_up(lab, spark, target, access, keys, events, plan.batch, steps)
        with _topic(lab, "pipeline_latency", Path(folder)) as (target, access):
            latencies, batch_ms = _latency(spark, target, access, plan.latency_s)
    spark.stop()
    main = sides[f"{plan.keys[0]} keys"]
    costs = [round_.cpu_us for round_ in main.rounds]
    third = max(1, len(costs) // 3)
    early, late = median(costs[:third]), median(costs[-third:])
    figures = [
        *(
            Figure(f"streaming correlate, {name}", side.rate, RATE_MIN, unit="events/s", detail=f"CPU {side.cpu_us:.1f} µs each")
            for name, side in sides.items()
        ),
        Figure("latency, median", median(latencies), LATENCY_MAX_MS, unit="ms", at_most=True,
            detail=f"95 %: {quantiles(latencies, n=20)[-1]:.0f} ms, {len(latencies)} events, batch {median(batch_ms):.0f} ms"),
        Figure("CPU per event, last third of the batches : first third", late / early, FLAT_MAX, at_most=True,
            detail=f"{early:.2f} µs → {late:.2f} µs; {main.rounds[0].rate:,.0f}/s → {main.rounds[-1].rate:,.0f}/s"),
    ]  # fmt: skip
    if missed := [figure.name for figure in figures if not figure.met]:
        conditions["missed"], conditions["why"] = missed, WHY
    raw: dict[str, object] = {**sides, "pattern": PATTERN, "batch": plan.batch, "events": plan.events}
    report("pipeline", conditions, figures, raw)


@contextmanager
def _topic(lab: Lab, name: str, folder: Path) -> Iterator[tuple[Target, Access]]:
    """A database whose topic `bench` has the correlator and runs on Spark; Spark finds it by a file."""
    with lab.database(name, partitions=1) as target:
        secret = folder / name
        secret.write_text(target.dsn)
        secret.chmod(0o600)
        with connect(target) as conn:
            conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
            alarm = {"alarm": ActionOutput(action="ALARM")}
            create_correlator(conn, Correlator(name="logins", topic="bench", key="key", pattern=PATTERN, outputs=alarm))
        _compile(target)
        with connect(target) as conn:
            set_engine(conn, "bench", "spark")
        yield target, Access(secret=str(secret))


def _compile(target: Target) -> None:
    import asyncio

    from headrace.correlators import CorrelatorEngine
    from headrace.db import Subscription, create_pool

    async def compile_once() -> None:
        pool = create_pool(target, size=1)
        await pool.open()
        await CorrelatorEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal()).compile_once()
        await pool.close()

    asyncio.run(compile_once())


def _catch_up(
    lab: Lab, spark: SparkSession, target: Target, access: Access, keys: int, events: int, batch: int, steps: int
) -> Side:
    """Fills the log in steps and catches up with each, after a warm-up that does not count."""
    portion = events // steps
    side = Side(f"{keys} keys", [])
    with connect(target) as conn, connect(target) as own:
        pipeline = TopicPipeline(spark, access, own, "bench", shard="main", events_max=batch)
        own.execute("select headrace_internal.begin_pipeline(%s, %s, 'bench', 'local[2]')", (pipeline.topic_id, pipeline.run_id))
        _fill(conn, keys, 1, batch)
        _drain(pipeline)
        for first in range(batch + 1, batch + events + 1, portion):
            _fill(conn, keys, first, first + portion - 1)
            conn.execute("checkpoint")
            began, cpu = time.perf_counter(), lab.cpu_s(_process_tree())
            done = _drain(pipeline)
            took_s = time.perf_counter() - began
            assert done == portion, f"{done} events of {portion}"
            side.rounds.append(Round(portion / took_s, 1e6 * (lab.cpu_s(_process_tree()) - cpu) / portion))
    return side


def _fill(conn: Connection, keys: int, first: int, last: int) -> None:
    for start in range(first, last + 1, FILL_STEP):
        conn.execute(FILL, {"keys": keys, "first": start, "last": min(start + FILL_STEP - 1, last)})
    conn.execute("vacuum analyze headrace_internal.log")


def _drain(pipeline: TopicPipeline) -> int:
    events = 0
    while done := pipeline.step():
        events += done.events
    return events


def _latency(spark: SparkSession, target: Target, access: Access, seconds: int) -> tuple[list[float], list[float]]:
    """Runs a producer and a sequencer in their own processes, and the pipeline here."""
    done: list[tuple[datetime, BatchDone]] = []
    pipeline = Pipeline(spark, ["bench"], access=access, on_batch=lambda batch: done.append((datetime.now(UTC), batch)))
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    helpers = [
        subprocess.Popen([sys.executable, "-m", "bench.steady", kind, target.dsn, str(seconds)])
        for kind in ("sequence", "publish")
    ]
    for helper in helpers:
        assert helper.wait(seconds + 60) == 0
    with connect(target) as conn:
        while sequence(conn):
            pass
        time.sleep(3)
        pipeline.stop()
        thread.join(60)
        rows = conn.execute("select position, emitted_at from headrace.log order by position").fetchall()
    emitted = dict(rows)
    # The first seconds warm up.
    first = len(rows) // 5
    latencies = [
        (at - emitted[position]).total_seconds() * 1000
        for at, batch in done
        for position in range(batch.from_position + 1, batch.upto + 1)
        if position > first
    ]
    return latencies, [1000 * batch.took_s for _, batch in done]
