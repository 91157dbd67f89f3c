"""A consumer with a condition: it handles exactly the events for which the condition is true, and its cursor passes the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.actions import list_dead_letters, redrive
from headrace.consume import (
    Batch,
    ConditionCompiler,
    Consumer,
    Failure,
    consumer_lag,
    create_consumer,
    get_consumer,
    seek_consumer,
)
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, StopSignal, Subscription, Target, create_pool
from headrace.lang.condition import ConditionError, jsonb_text, load_corpus, parse, python_engine
from headrace.rules import database_engine
from tests.builders import fill, topic
from tests.consume.conftest import Start, run_dry

CORPUS = Path(__file__).parents[1] / "corpus"
EVEN = "object::int % 2 = 0"
PASSED_MAX = 11_000
"""Events of a partition that one claim looks at."""


class Recorder:
    """Records the numbers it gets, and raises on some."""

    def __init__(self, *disliked: int) -> None:
        self.disliked = set(disliked)
        self.numbers: list[object] = []

    async def handle(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        if event.payload in self.disliked:
            raise ValueError(f"cannot handle {event.payload}")
        self.numbers.append(event.payload)

    async def handle_batch(self, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        if self.disliked & {event.payload for event in events}:
            raise ValueError("cannot handle the batch")
        self.numbers.extend(event.payload for event in events)


def positions(conn: Connection) -> list[int]:
    return [row.position for row in consumer_lag(conn)]


@pytest.mark.lane("pg18")
async def test_consumer_gets_the_events_for_which_a_rule_would_fire(conn: Connection) -> None:
    """Every condition of the shared corpus over every event of it."""
    cases = [case for name in ("condition", "condition_rulings") for case in load_corpus(CORPUS / f"{name}.toml") if case.expect]
    topic(conn)
    conn.execute("select headrace_internal.attach_log(1)")
    events = [case.event for case in cases]
    with conn.cursor().copy(
        "copy headrace_internal.log (topic_id, partition, position, event_id, type, key, payload, headers, emitted_at, appended_at)"
        " from stdin"
    ) as copy:
        for position, event in enumerate(events, 1):
            row = (1, 0, position, f"00000000-0000-4000-8000-{position:012}", event.type, event.key)
            copy.write_row((*row, jsonb_text(event.payload), jsonb_text(dict(event.headers)), event.emitted_at, "now"))
    conditions = list(dict.fromkeys(case.condition for case in cases))
    answers = python_engine([parse(condition) for condition in conditions], events)
    assert answers == database_engine(conn)([parse(condition) for condition in conditions], events)
    expected = {
        condition: [position for position, row in enumerate(answers, 1) if row[number] is True]
        for number, condition in enumerate(conditions)
    }
    claimed: dict[str, list[int]] = {}
    for condition in conditions:
        consumer_id = create_consumer(conn, Consumer(topic="orders", name="c", handler=Recorder().handle, where=condition))
        with conn.transaction(force_rollback=True):
            claim = "select position from headrace.claim_events(%s, 100000) where event_id is not null"
            claimed[condition] = [row[0] for row in conn.execute(claim, (consumer_id,))]
        # Otherwise the next claim would take the one that was rolled back for lost.
        conn.execute("select headrace.release_claims(%s, '{0}', '{0}')", (consumer_id,))
    assert {
        condition: (claimed[condition], answer) for condition, answer in expected.items() if claimed[condition] != answer
    } == {}
    assert sum(map(len, claimed.values())) > len(cases)


@pytest.mark.parametrize("batch", [None, Batch(max=7)])
@pytest.mark.parametrize("ordered_by", ["partition", "topic"])
async def test_handler_gets_what_matches_and_cursor_passes_the_rest(
    conn: Connection, start: Start, batch: Batch | None, ordered_by: str
) -> None:
    topic(conn, partitions=3)
    fill(conn, 101, keys=11)
    recorder = Recorder()
    handler = recorder.handle_batch if batch else recorder.handle
    runner = await start(
        Consumer(topic="orders", name="c", handler=handler, batch=batch, ordered_by=ordered_by, where=EVEN)  # type: ignore[arg-type]
    )
    await run_dry(runner)
    assert sorted(recorder.numbers, key=str) == sorted(range(2, 101, 2), key=str)
    assert [row.lag_events for row in consumer_lag(conn)] == [0] * (1 if ordered_by == "topic" else 3)
    assert runner.handled == 50


@pytest.mark.lane("pg18")
async def test_long_stretch_without_match_is_passed_by_bounded_claims(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 2 * PASSED_MAX + 500)
    recorder = Recorder()
    runner = await start(
        Consumer(topic="orders", name="c", handler=recorder.handle, where=f"object::int > {2 * PASSED_MAX + 498}")
    )
    steps = []
    while (batch := await runner.handle_batch()).may_have_more or batch.size:
        steps.append((positions(conn)[0], batch.size))
    assert steps == [(PASSED_MAX, 0), (2 * PASSED_MAX, 0), (2 * PASSED_MAX + 500, 2)]
    assert recorder.numbers == [2 * PASSED_MAX + 499, 2 * PASSED_MAX + 500]


async def test_failed_event_is_the_one_that_becomes_a_dead_letter(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 20, keys=1)
    recorder = Recorder(6)
    failure = Failure.dead_letter(attempts=1)
    runner = await start(
        Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=Batch(max=50), failure=failure, where=EVEN)
    )
    await run_dry(runner)
    letters = list_dead_letters(conn)
    assert recorder.numbers == [2, 4]
    assert [letter.position for letter in letters] == list(range(6, 21, 2)), "only what matches waits behind it"
    recorder.disliked.clear()
    redrive(conn, ["orders/c"])
    while await runner.redrive_once():
        pass
    assert recorder.numbers == list(range(2, 21, 2))
    assert positions(conn) == [20]


async def test_stopped_partition_stands_before_the_matching_event(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 9)
    recorder = Recorder(6)
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle, failure=Failure.stop(), where=EVEN)))
    (row,) = consumer_lag(conn)
    assert (recorder.numbers, row.state, row.position) == ([2, 4], "stopped", 4)


async def test_minimum_of_a_batch_counts_matching_events_only(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 9)
    recorder = Recorder()
    batch = Batch(min=5, max=10, wait_s=3600)
    runner = await start(Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=batch, where=EVEN))
    assert await runner.handle_once() == 0
    assert positions(conn) == [1], "the cursor stands before the first event that matches"
    fill(conn, 2)
    assert await runner.handle_once() == 5
    assert recorder.numbers == [2, 4, 6, 8, 2]


async def test_changed_condition_applies_from_the_cursor_on(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 10)
    recorder = Recorder()
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle, where=EVEN)))
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle, where="object::int > 8")))
    assert recorder.numbers == [2, 4, 6, 8, 10]
    seek_consumer(conn, "orders", "c", "earliest")
    runner = await start(Consumer(topic="orders", name="c", handler=recorder.handle, where="object::int > 8"))
    await run_dry(runner)
    assert recorder.numbers[5:] == [9, 10]
    await start(Consumer(topic="orders", name="c", handler=recorder.handle))
    assert get_consumer(conn, "orders", "c").condition is None


async def test_condition_written_in_sql_is_compiled_by_a_node(conn: Connection, database: Target) -> None:
    topic(conn)
    fill(conn, 4)
    create = "select headrace.create_consumer('orders', %s, p_where => %s)"
    ids = [conn.execute(create, pair).fetchone() for pair in (("good", EVEN), ("bad", "object::int >\n >"))]
    claim = "select count(*) filter (where event_id is not null) from headrace.claim_events(%s, 10)"
    assert [conn.execute(claim, row).fetchone() for row in ids] == [(0,), (0,)]
    assert get_consumer(conn, "orders", "good").condition_status == "pending"
    pool = create_pool(database, size=1)
    await pool.open()
    compiler = ConditionCompiler(pool, Subscription("headrace_rule"), StopSignal())
    assert [await compiler.compile_once(), await compiler.compile_once()] == [(2, 2), (0, 0)]
    await pool.close()
    good, bad = (get_consumer(conn, "orders", name) for name in ("good", "bad"))
    assert (good.condition_status, bad.condition_status) == ("valid", "invalid")
    assert "line 2" in (bad.condition_error or "")
    assert [conn.execute(claim, row).fetchone() for row in ids] == [(2,), (0,)]


async def test_locked_consumer_keeps_no_other_from_its_condition(conn: Connection, second: Connection, database: Target) -> None:
    """A role may leave a transaction open that has changed its own consumer."""
    topic(conn)
    create = "select headrace.create_consumer('orders', %s, p_where => %s)"
    for name in ("mine", "yours"):
        conn.execute(create, (name, EVEN))
    async with create_pool(database, size=1) as pool:
        compiler = ConditionCompiler(pool, Subscription("headrace_rule"), StopSignal())
        with second.transaction():
            second.execute(create, ("mine", "object::int > 3"))
            async with asyncio.timeout(10):
                assert await compiler.compile_once() == (2, 1)
            assert get_consumer(conn, "orders", "yours").condition_status == "valid"
        assert await compiler.compile_once() == (1, 1)
    assert get_consumer(conn, "orders", "mine").condition_status == "valid"


def test_bad_condition_is_rejected_with_line_and_column() -> None:
    with pytest.raises(ConditionError, match=r"(?s)line 1.*column"):
        Consumer(topic="orders", name="c", handler=Recorder().handle, where="objct = 1")
