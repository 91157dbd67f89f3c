"""Events commit and roll back with the caller's transaction, on every driver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from headrace.core import Event, InvalidEventType, InvalidPayload, RawJSON, UnknownTopic
from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import create_topic, drop_topic
from tests.builders import drain, own_database
from tests.drivers.callers import CALLERS

ROWS = "select event_id, type, key, payload, headers, emitted_at, producer from headrace.outbox order by id"


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Target]:
    """One for all tests of this file: each begins with an empty outbox."""
    with own_database(server, template="headrace_template") as target:
        with connect(target) as conn:
            conn.execute("select headrace.create_topic('orders'), headrace.create_topic('bills')")
            conn.execute("insert into headrace_internal.namespace (namespace) values ('tenant')")
            conn.execute("select headrace.create_topic('orders', p_namespace => 'tenant')")
        yield target


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with connect(database) as connection:
        drain(connection)
        yield connection


@pytest.fixture(params=CALLERS)
def opening(request: pytest.FixtureRequest, database: Target, conn: Connection):
    return CALLERS[request.param](database.dsn)


def full_event(number: int = 1) -> Event:
    return Event(
        topic="orders",
        type="order.placed",
        payload={"id": number, "note": 'ünï "quoted" \\ back\n', "none": None, "big": 2**70, "deep": [[{}]]},
        key=f"customer-{number}",
        headers={"traceparent": "00-ab", "n": 1.5},
        id=uuid4(),
        emitted_at=datetime(2026, 1, 31, 12, 0, 0, 123456, UTC),
        producer="shop",
    )


def stored(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute(ROWS).fetchall()


def expected(event: Event) -> tuple[object, ...]:
    return (event.id, event.type, event.key, event.payload, event.headers, event.emitted_at, event.producer)


async def test_one_event_commits_with_the_transaction(opening, conn: Connection) -> None:
    event = full_event()
    async with opening as caller:
        assert await caller.one(event) == event.id
        assert stored(conn) == []
        await caller.finish(True)
    assert stored(conn) == [expected(event)]


async def test_one_event_vanishes_with_the_transaction(opening, conn: Connection) -> None:
    async with opening as caller:
        await caller.one(full_event())
        await caller.finish(False)
    assert stored(conn) == []


async def test_many_events_commit_with_the_transaction_in_their_order(opening, conn: Connection) -> None:
    events = [full_event(number) for number in range(600)]
    async with opening as caller:
        assert await caller.many(event for event in events) == [event.id for event in events]
        assert stored(conn) == []
        await caller.finish(True)
    assert stored(conn) == [expected(event) for event in events]


async def test_many_events_vanish_with_the_transaction(opening, conn: Connection) -> None:
    async with opening as caller:
        await caller.many([full_event(1), full_event(2)])
        await caller.finish(False)
    assert stored(conn) == []


async def test_many_writes_the_same_rows_as_one_by_one(opening, conn: Connection) -> None:
    bare = Event(topic="bills", type="bill.sent")
    raw = Event(topic="orders", type="order.paid", payload=RawJSON(b'{"sum": 1.10, "id": 12345678901234567890.123}'))
    events = [full_event(), bare, raw]
    text = """select topic_id, event_id, type, key, payload::text, headers, producer,
        emitted_at between now() - interval '1 minute' and now() + interval '1 minute' from headrace_internal.outbox order by id"""
    async with opening as caller:
        for event in events:
            await caller.one(event)
        await caller.many(events)
        await caller.finish(True)
    rows = conn.execute(text).fetchall()
    assert rows[:3] == rows[3:]


async def test_same_id_twice_is_one_event(opening, conn: Connection) -> None:
    event, other = full_event(1), full_event(2)
    async with opening as caller:
        await caller.one(event)
        await caller.many([event, event, other])
        await caller.many([other])
        await caller.finish(True)
    assert len(stored(conn)) == 5
    conn.execute("select headrace.sequence()")
    text = "select event_id from headrace.log where event_id = any (%s) order by position"
    assert conn.execute(text, ([event.id, other.id],)).fetchall() == [(event.id,), (other.id,)]


async def test_invalid_event_leaves_nothing_and_the_transaction_usable(opening, conn: Connection) -> None:
    good = full_event()
    async with opening as caller:
        with pytest.raises(InvalidEventType, match="order  placed"):
            await caller.many([full_event(1), Event(topic="orders", type="order  placed")])
        with pytest.raises(InvalidPayload):
            await caller.one(Event(topic="orders", type="order.placed", payload=object()))
        await caller.many([good])
        await caller.finish(True)
    assert stored(conn) == [expected(good)]


@pytest.mark.parametrize("many", [False, True])
async def test_unknown_topic_names_the_known_ones_and_leaves_the_transaction_usable(
    opening, conn: Connection, many: bool
) -> None:
    before, after = full_event(1), full_event(2)
    unknown = Event(topic="ordrs", type="order.placed")
    async with opening as caller:
        await caller.one(before)
        for _ in range(2):
            with pytest.raises(UnknownTopic, match=r'no topic "ordrs" in namespace "default".*bills, orders'):
                await (caller.many([full_event(3), unknown]) if many else caller.one(unknown))
        await caller.many([after])
        await caller.finish(True)
    assert stored(conn) == [expected(before), expected(after)]


async def test_unknown_topic_as_first_statement_leaves_the_transaction_usable(opening, conn: Connection) -> None:
    event = full_event()
    async with opening as caller:
        with pytest.raises(UnknownTopic):
            await caller.one(Event(topic="ordrs", type="order.placed"))
        await caller.one(event)
        await caller.finish(True)
    assert stored(conn) == [expected(event)]


async def test_topic_that_is_created_between_the_two_statements_gets_the_event(conn: Connection, monkeypatch) -> None:
    """The error is raised by a second statement, which sees what has been committed since the first."""
    from headrace.log.outbox import publish, publish_many, publishing

    fetch = publishing.fetch

    def fetch_late(statement, parameters):
        create_topic(conn, "late")
        return fetch(statement, parameters)

    monkeypatch.setattr(publishing, "fetch", fetch_late)
    publish(conn, "late", "a")
    assert [type for _, type, *_ in stored(conn)] == ["a"]
    drop_topic(conn, "late")
    publish_many(conn, [Event(topic="late", type="b"), Event(topic="late", type="c")])
    assert [type for _, type, *_ in stored(conn)] == ["b", "c"]
    drop_topic(conn, "late")


async def test_empty_batch_writes_nothing(opening, conn: Connection) -> None:
    async with opening as caller:
        assert await caller.many([]) == []
        await caller.finish(True)
    assert stored(conn) == []


async def test_topics_of_another_namespace_are_chosen_by_name(opening, conn: Connection) -> None:
    async with opening as caller:
        await caller.many([full_event()], namespace="tenant")
        await caller.finish(True)
    row = conn.execute("select t.namespace from headrace.outbox o join headrace.topic t using (topic_id)").fetchone()
    assert row == ("tenant",)


def test_id_is_created_if_none_is_given(conn: Connection) -> None:
    from headrace.log.outbox import publish

    id = publish(conn, "orders", "order.placed")
    assert isinstance(id, UUID) and id.version == 7
    assert stored(conn)[0][0] == id
