"""The running process: it wakes up for events and timers, hands over to another process, and says why it cannot run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.core import Conflict, Invalid, UnknownTopic
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection, Target, connect
from headrace.lang.ecl import AnyBatch, make_batch
from headrace.spark import Access
from headrace.spark.pipeline import BatchDone, Pipeline, TopicPipeline, list_pipelines, set_engine, stepping
from headrace.spark.pipeline.runner import IDLE_S, pause_s
from tests.builders import drain, topic
from tests.cli.conftest import call
from tests.correlators.steps import happen as happen_now
from tests.spark.reading import secret_file

from .conftest import MakePipeline
from .steps import compile_everything, differences, read_results, run_database, run_spark
from .test_agreement import prepare

pytestmark = pytest.mark.lane("pg18")
WAITING = Correlator(name="waiting", topic="cars", key="key", outputs={"late": ActionOutput(action="CALL")},
    pattern="repeat {sequential {SOLD, push(late) {after 1 s}}}")  # fmt: skip


@pytest.fixture
def access(database: Target, tmp_path: Path) -> Access:
    return Access(secret=secret_file(tmp_path, database))


@contextmanager
def running(pipeline: Pipeline) -> Iterator[None]:
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    try:
        yield
    finally:
        pipeline.stop()
        thread.join(60)
        assert not thread.is_alive()


def until(conn: Connection, statement: str, wanted: object) -> None:
    deadline = time.monotonic() + 60
    while (row := conn.execute(statement).fetchone()) != (wanted,):
        assert time.monotonic() < deadline, f"{row} instead of {wanted}"
        time.sleep(0.05)


async def test_running_pipeline_handles_events_and_fires_timers_without_them(
    spark: SparkSession, conn: Connection, database: Target, access: Access
) -> None:
    topic(conn, "cars")
    create_correlator(conn, WAITING)
    await compile_everything(database)
    set_engine(conn, "cars", "spark")
    first, second = Pipeline(spark, ["cars"], access=access), Pipeline(spark, ["cars"], access=access)

    def live() -> None:
        with running(first):
            until(conn, "select state from headrace.pipeline_state", "running")
            happen_now(conn, "SOLD:a SOLD:b NEW_CAR:a")
            until(conn, "select count(*) from public.sent", 2)
            with running(second):
                happen_now(conn, "SOLD:c")
                until(conn, "select count(*) from public.sent", 3)
                first.stop()
                # The second pipeline takes over.
                happen_now(conn, "SOLD:d")
                until(conn, "select count(*) from public.sent", 4)

    await asyncio.to_thread(live)
    (state,) = list_pipelines(conn)
    assert (state.state, state.outputs, state.events, state.position) == ("stopped", 4, 5, 5)


async def test_pending_timer_on_the_event_clock_is_not_polled(
    conn: Connection, database: Target, make_pipeline: MakePipeline
) -> None:
    """Only an event moves that clock; until one comes, the pipeline waits for a notification and writes nothing."""
    conn.execute("select headrace.create_topic('cars', p_clock => 'event')")
    create_correlator(conn, WAITING)
    await compile_everything(database)
    set_engine(conn, "cars", "spark")
    conn.execute(
        "select headrace.publish('cars', 'SOLD', '{}', p_key => 'a', p_emitted_at => headrace.clock() - interval '1 hour')"
    )
    drain(conn)
    pipeline = make_pipeline(database, conn)
    run_spark(pipeline)
    (waiting, topic_row) = conn.execute(
        "select (select count(*) from headrace.correlator_instance where deadline < headrace.clock()), xmin::text"
        " from headrace_internal.topic"
    ).fetchone()
    assert waiting == 1
    assert pause_s(pipeline.next_due_s()) == IDLE_S
    assert pipeline.tick() is None
    assert conn.execute("select xmin::text from headrace_internal.topic").fetchone() == (topic_row,)


async def test_timers_of_a_long_silence_are_spread_over_batches_as_in_the_database(
    conn: Connection,
    database: Target,
    copy_database: Callable[[], Target],
    make_pipeline: MakePipeline,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stepping by columns rejects such a flood; the pipeline then steps event by event, in several batches."""
    from headrace.evaluate import table_run

    monkeypatch.setattr(table_run, "FIRINGS_MAX", 3)
    created: list[AnyBatch] = []

    def few_at_a_time(*given: object) -> AnyBatch:
        created.append(make_batch(*given, ticks_left=10))  # type: ignore[arg-type]
        return created[-1]

    monkeypatch.setattr(stepping, "make_batch", few_at_a_time)
    await prepare(conn, database, events=5, seed=14)
    pattern = "repeat {sequential {SOLD, repeat {push(late) {after 30 s}}}}"
    create_correlator(
        conn, Correlator(name="ticking", topic="cars", pattern=pattern, outputs={"late": ActionOutput(action="TICK")})
    )
    await compile_everything(database)
    happen_now(conn, "SOLD NEW_CAR")
    conn.execute("update headrace_internal.log set appended_at = appended_at - interval '20 minutes' where position = 6")
    conn.close()
    other = copy_database()
    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        set_engine(theirs, "cars", "spark")
        run_spark(make_pipeline(other, theirs))
        assert list(differences(read_results(ours, in_order=False), read_results(theirs, in_order=False))) == []
        row = theirs.execute("select count(*) from headrace.correlation where token = 'late'").fetchone()
        assert row is not None and row[0] > 20 and len(created) > 3


def test_pipeline_says_why_it_cannot_run(spark: SparkSession, conn: Connection, access: Access) -> None:
    topic(conn, "cars")
    with pytest.raises(Conflict, match="headrace topic engine cars spark"):
        Pipeline(spark, ["cars"], access=access, once=True).run()
    with pytest.raises(UnknownTopic, match="bikes"):
        Pipeline(spark, ["bikes"], access=access, once=True).run()
    with pytest.raises(Invalid):
        Pipeline(spark, [], access=access)
    set_engine(conn, "cars", "spark")
    conn.execute("select headrace.try_lock_topic(topic_id, 'pipeline') from headrace.topic")
    with pytest.raises(Conflict, match="another pipeline"):
        Pipeline(spark, ["cars"], access=access, once=True).run()


def test_commands_move_a_topic_and_list_pipelines(conn: Connection, database: Target) -> None:
    topic(conn, "cars")
    result = call("topic", "engine", "cars", "spark", "--json", "--dsn", database.dsn)
    assert result.json == {"topic": "cars", "engine": "spark", "moved_on": ["main"]}
    assert call("topic", "engine", "cars", "spark", "--dsn", database.dsn).out == "topic cars already runs on spark\n"
    assert call("topic", "engine", "cars", "flink", "--dsn", database.dsn).code == 2
    conn.execute("select headrace_internal.begin_pipeline(topic_id, gen_random_uuid(), 'host:1', 'local[2]') from headrace.topic")
    (state,) = call("pipeline", "list", "--json", "--dsn", database.dsn).json
    assert (state["topic"], state["state"], state["process"], state["batches"]) == ("cars", "running", "host:1", 0)
    assert "host:1" in call("pipeline", "list", "--topic", "cars", "--dsn", database.dsn).out


def test_unnamed_error_of_the_jvm_is_retried(
    spark: SparkSession, conn: Connection, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn, "cars")
    set_engine(conn, "cars", "spark")
    step, failed = TopicPipeline.step, []

    def fail_once(pipeline: TopicPipeline) -> BatchDone | None:
        if not failed:
            failed.append(True)
            spark._jvm.java.lang.Integer.parseInt("no number")  # type: ignore[union-attr]
        return step(pipeline)

    monkeypatch.setattr(TopicPipeline, "step", fail_once)
    Pipeline(spark, ["cars"], access=access, once=True).run()
    assert failed
