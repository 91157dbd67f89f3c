"""Events live and die with the caller's transaction, whatever driver it stands on."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest

from headrace.core import BadPayload, BadType, Event, HeadraceError, Invalid, RawJSON, UnknownTopic
from headrace.db import Connection, Target
from tests.outbox.doors import DOORS, Door

ROWS = "select event_id, type, key, payload, headers, emitted_at, producer from headrace_internal.outbox order by id"


@pytest.fixture(params=DOORS)
def opened(request: pytest.FixtureRequest, database: Target, conn: Connection):
    conn.execute("select headrace.create_topic('orders'), headrace.create_topic('bills')")
    return DOORS[request.param](database.dsn)


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


async def test_one_event_commits_with_the_transaction(opened, conn: Connection) -> None:
    event = full_event()
    async with opened as door:
        assert await door.one(event) == event.id
        assert stored(conn) == []
        await door.finish(True)
    assert stored(conn) == [expected(event)]


async def test_one_event_vanishes_with_the_transaction(opened, conn: Connection) -> None:
    async with opened as door:
        await door.one(full_event())
        await door.finish(False)
    assert stored(conn) == []


async def test_many_events_commit_with_the_transaction_in_their_order(opened, conn: Connection) -> None:
    events = [full_event(number) for number in range(600)]
    async with opened as door:
        assert await door.many(event for event in events) == [event.id for event in events]
        assert stored(conn) == []
        await door.finish(True)
    assert stored(conn) == [expected(event) for event in events]


async def test_many_events_vanish_with_the_transaction(opened, conn: Connection) -> None:
    async with opened as door:
        await door.many([full_event(1), full_event(2)])
        await door.finish(False)
    assert stored(conn) == []


async def test_many_writes_the_same_rows_as_one_by_one(opened, conn: Connection) -> None:
    bare = Event(topic="bills", type="bill.sent")
    raw = Event(topic="orders", type="order.paid", payload=RawJSON(b'{"sum": 1.10, "id": 12345678901234567890.123}'))
    events = [full_event(), bare, raw]
    text = """select topic_id, event_id, type, key, payload::text, headers, producer, slot between 0 and 7,
        emitted_at between now() - interval '1 minute' and now() + interval '1 minute' from headrace_internal.outbox order by id"""
    async with opened as door:
        for event in events:
            await door.one(event)
        await door.many(events)
        await door.finish(True)
    rows = conn.execute(text).fetchall()
    assert rows[:3] == rows[3:]


async def test_same_id_twice_is_one_event(opened, conn: Connection) -> None:
    event, other = full_event(1), full_event(2)
    async with opened as door:
        await door.one(event)
        await door.many([event, event, other])
        await door.many([other])
        await door.finish(True)
    assert len(stored(conn)) == 5
    conn.execute("select headrace.sequence()")
    assert conn.execute("select event_id from headrace_internal.log order by position").fetchall() == [(event.id,), (other.id,)]


async def test_bad_event_leaves_nothing_and_the_transaction_sound(opened, conn: Connection) -> None:
    good = full_event()
    async with opened as door:
        with pytest.raises(BadType, match="order placed"):
            await door.many([full_event(1), Event(topic="orders", type="order placed")])
        with pytest.raises(BadPayload):
            await door.one(Event(topic="orders", type="order.placed", payload=object()))
        await door.many([good])
        await door.finish(True)
    assert stored(conn) == [expected(good)]


@pytest.mark.parametrize("many", [False, True])
async def test_unknown_topic_names_the_known_ones(opened, many: bool) -> None:
    event = Event(topic="ordrs", type="order.placed")
    async with opened as door:
        with pytest.raises(UnknownTopic, match=r'no topic "ordrs" in namespace "default".*bills, orders'):
            await (door.many([full_event(), event]) if many else door.one(event))
        await rolled_back(door)


async def rolled_back(door: Door) -> None:
    """Ends a transaction that the database has failed; a driver may say so once more."""
    try:
        await door.finish(False)
    except HeadraceError:
        raise
    except psycopg.Error as error:
        assert "ipeline" in str(error)


async def test_no_events_are_no_work(opened, conn: Connection) -> None:
    async with opened as door:
        assert await door.many([]) == []
        await door.finish(True)
    assert stored(conn) == []


async def test_topics_of_another_namespace_are_chosen_by_name(opened, conn: Connection) -> None:
    conn.execute("insert into headrace.namespace (namespace) values ('tenant')")
    conn.execute("select headrace.create_topic('orders', p_namespace => 'tenant')")
    async with opened as door:
        await door.many([full_event()], namespace="tenant")
        await door.finish(True)
    row = conn.execute("select t.namespace from headrace_internal.outbox o join headrace.topic t using (topic_id)").fetchone()
    assert row == ("tenant",)


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("wrong", [None, 5, "postgresql://localhost", object()])
async def test_what_is_no_connection_is_refused_with_what_is(wrong: object) -> None:
    for asynchronous in (False, True):
        with pytest.raises(Invalid, match="is not a connection to publish on; give psycopg Connection"):
            await Door(wrong, None, asynchronous).one(full_event())


async def test_wrong_colour_of_connection_is_told_the_right_function(opened) -> None:
    async with opened as door:
        advice = "use the function without _async" if not door.asynchronous else "ends in _async"
        for publish in (Door.one, Door.many):
            with pytest.raises(Invalid, match=advice):
                await publish(Door(door.conn, door.finish, not door.asynchronous), full_event() if publish is Door.one else [])
        await door.finish(False)


def test_id_is_made_when_none_is_given(conn: Connection) -> None:
    from headrace.outbox import publish

    conn.execute("select headrace.create_topic('orders')")
    id = publish(conn, "orders", "order.placed")
    assert isinstance(id, UUID) and id.version == 7
    assert stored(conn)[0][0] == id
