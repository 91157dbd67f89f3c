"""A topic moves from one engine to the other and back: nothing is lost or repeated, and two engines never work at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import psycopg
import pytest

from headrace.core import Invalid, UnknownTopic
from headrace.correlators import Correlator, create_correlator
from headrace.db import Connection, Target, connect
from headrace.log.topics import get_topic
from headrace.rules import Rule, alter_rule
from headrace.spark.pipeline import list_batches, list_pipelines, set_engine
from headrace.spark.pipeline.computation import BatchComputer, Computed, Part
from tests.builders import drain, topic

from .conftest import MakePipeline
from .steps import RULES, append_events, compile_everything, differences, read_results, run_database, run_spark
from .test_agreement import prepare

pytestmark = pytest.mark.lane("pg18")


async def test_moving_in_the_middle_of_a_stream_changes_nothing(
    conn: Connection, database: Target, copy_database: Callable[[], Target], make_pipeline: MakePipeline
) -> None:
    """Both engines take turns, in batches of different sizes."""
    await prepare(conn, database, events=70, seed=5)
    conn.close()
    other = copy_database()
    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        pipeline = make_pipeline(other, theirs, events_max=13)
        for turn in range(4):
            set_engine(theirs, "cars", "spark")
            run_spark(pipeline, batches=1 + turn % 2)
            set_engine(theirs, "cars", "database")
            assert pipeline.step() is None and pipeline.tick() is None
            await run_database(other, limit=7, batches=2)
        set_engine(theirs, "cars", "spark")
        run_spark(pipeline)
        assert list(differences(read_results(ours, in_order=False), read_results(theirs, in_order=False))) == []
        batches = list_batches(theirs, "cars", limit=100)
        assert [b.batch for b in batches] == list(range(len(batches), 0, -1))
        (state,) = list_pipelines(theirs)
        assert (state.engine, state.lag_events, state.batches) == ("spark", 0, len(batches))
        assert state.rate and state.batch_ms and state.outputs == sum(batch.outputs for batch in batches)


async def test_changed_rule_fires_by_the_version_that_was_active_at_the_position(
    conn: Connection, database: Target, copy_database: Callable[[], Target], make_pipeline: MakePipeline
) -> None:
    await prepare(conn, database, events=30, seed=6)
    conn.close()
    other = copy_database()

    async def halfway(here: Connection, target: Target) -> None:
        append_events(here, 20, seed=7, ago_s=900)
        alter_rule(
            here, Rule(name="big", topic="cars", event_type="NEW_CAR", action="big", condition="(object -> 'n')::int < 40")
        )
        await compile_everything(target)

    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        set_engine(theirs, "cars", "spark")
        pipeline = make_pipeline(other, theirs)
        run_spark(pipeline)
        await halfway(ours, database)
        await halfway(theirs, other)
        await run_database(database)
        run_spark(pipeline)
        fired = "select rule_version_id, position from headrace.firing order by firing_id"
        assert ours.execute(fired).fetchall() == theirs.execute(fired).fetchall()
        versions = theirs.execute("select distinct version from headrace.event_history where rule = 'big'").fetchall()
        assert len(versions) == 2


async def test_each_engine_ignores_the_topics_of_the_other(
    conn: Connection, database: Target, make_pipeline: MakePipeline
) -> None:
    await prepare(conn, database, events=20, seed=8)
    pipeline = make_pipeline(database, conn)
    before = read_results(conn)
    assert pipeline.step() is None and pipeline.tick() is None
    assert set_engine(conn, "cars", "spark") and not set_engine(conn, "cars", "spark")
    assert get_topic(conn, "cars").engine == "spark"
    await run_database(database)
    assert read_results(conn) == before


async def test_move_waits_for_the_running_batch(conn: Connection, second: Connection, database: Target) -> None:
    await prepare(conn, database, events=10, seed=9)
    with second.transaction():
        second.execute("select headrace_internal.react(topic_id) from headrace.topic where topic = 'cars'")
        conn.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            set_engine(conn, "cars", "spark")
    assert set_engine(conn, "cars", "spark")


@pytest.mark.parametrize("meanwhile", ["move", "rule", "batch"])
async def test_outdated_batch_is_discarded(
    conn: Connection,
    second: Connection,
    database: Target,
    make_pipeline: MakePipeline,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: str,
) -> None:
    """While Spark works, the topic moves to the database, a rule is changed, or another pipeline runs the batch."""
    await prepare(conn, database, events=20, seed=10)
    set_engine(conn, "cars", "spark")
    pipeline, rival = make_pipeline(database, conn), make_pipeline(database, second)
    compute = pipeline._computer.compute

    def disturbed(parts: Sequence[object]) -> object:
        done = compute(parts)  # type: ignore[arg-type]
        if meanwhile == "move":
            set_engine(second, "cars", "database")
        elif meanwhile == "rule":
            second.execute("update headrace.rule set condition = 'false'")
        else:
            rival.step()
        return done

    monkeypatch.setattr(pipeline._computer, "compute", disturbed)
    before = read_results(conn)
    done = pipeline.step()
    assert done is not None
    if meanwhile == "rule":
        # Only the rules wait for the compiler; the correlators went on.
        assert done.firings == 0 and done.outputs > 0 and read_results(conn)["firings"] == []
        return
    assert (done.firings, done.outputs, done.events) == (0, 0, 0)
    if meanwhile == "move":
        assert read_results(conn) == before
        await run_database(database)
    else:
        monkeypatch.undo()
        run_spark(pipeline)
    assert len({row[4] for row in read_results(conn)["firings"]}) == len(read_results(conn)["firings"]) > 0


async def test_failing_event_is_found_while_the_other_consumers_go_on(
    conn: Connection, database: Target, make_pipeline: MakePipeline
) -> None:
    await prepare(conn, database, events=24, seed=11)
    set_engine(conn, "cars", "spark")
    conn.execute(
        """create function public.refuse() returns trigger language plpgsql as $$ begin
               if new.position >= 12 then raise exception 'no'; end if; return new; end $$;
           create trigger refuse before insert on headrace_internal.firing for each row execute function public.refuse()"""
    )
    pipeline = make_pipeline(database, conn)
    await asyncio.to_thread(run_spark, pipeline, batches=20)
    results = read_results(conn)
    at = {row[0]: row[1] for row in results["cursors"]}
    first = conn.execute("select min(position) from headrace.log l join headrace.topic t using (topic_id) where t.topic = 'cars' "
        "and l.type = 'NEW_CAR' and position >= 12 and ((payload -> 'n')::int > 60 or (payload -> 'n')::int % 2 = 1 and "
        "payload ->> 'color' = 'red' or emitted_at < '2026-01-01T00:00:30Z')").fetchone()  # fmt: skip
    assert first is not None and at["headrace.rules"] == first[0] - 1
    assert {position for name, position in at.items() if name != "headrace.rules"} == {24}
    row = conn.execute("select attempts, retry_at is not null, error from headrace.cursor where error is not null").fetchone()
    assert row is not None and row[:2] == (1, True) and "no" in row[2]
    conn.execute("drop trigger refuse on headrace_internal.firing; update headrace_internal.cursor set retry_at = null")
    run_spark(pipeline)
    assert {row[1] for row in read_results(conn)["cursors"]} == {24} and len(RULES) == 4


def test_unknown_engine_is_rejected(conn: Connection) -> None:
    topic(conn, "cars")
    with pytest.raises(Invalid, match="spark"):
        set_engine(conn, "cars", "flink")  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic):
        set_engine(conn, "bikes", "spark")


async def test_batch_that_was_read_before_an_erasure_is_not_written(
    conn: Connection, database: Target, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has read the events, and the keys that are computed from them, before the batch locks anything."""
    topic(conn, "cars")
    pattern = "repeat {push(pair) {sequential {NEW_CAR, SOLD, SOLD}}}"
    create_correlator(conn, Correlator(name="mails", topic="cars", key="object ->> 'email'", outputs={}, pattern=pattern))
    await compile_everything(database)
    for email in ("ada@secret.example", "bob@example.org"):
        conn.execute(
            "select headrace.publish('cars', 'NEW_CAR', jsonb_build_object('email', %s::text), p_key => left(%s, 3))",
            (email, email),
        )
    drain(conn)
    set_engine(conn, "cars", "spark")
    compute, erasures = BatchComputer.compute, ["select headrace.erase_key('cars', 'ada')"]

    def compute_and_erase(self: BatchComputer, parts: Sequence[Part]) -> list[Computed]:
        computed = compute(self, parts)
        while erasures:
            conn.execute(erasures.pop())
        return computed

    monkeypatch.setattr(BatchComputer, "compute", compute_and_erase)
    run_spark(make_pipeline(database, conn))
    keys = "select key from headrace_internal.correlator_instance where key like '%@%'"
    assert conn.execute(keys).fetchall() == [("bob@example.org",)]
