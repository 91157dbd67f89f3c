"""What a caller writes is part of its transaction, whatever its driver: the laws of every function that writes there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from headrace.actions import AfterCommit, send_action, send_action_async
from headrace.core import Event, Invalid, InvalidEventType
from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import create_topic
from tests.builders import own_database
from tests.drivers.callers import CALLERS, Caller

pytestmark = pytest.mark.lane("pg18")

EVENTS = [Event(topic="orders", type="order.placed", payload={"note": "ünï 😀", "n": n}) for n in range(3)]
SENT = """select message ->> 'action', message -> 'payload', message ->> 'key', (message ->> 'priority')::int,
    message ->> 'event_type', message ->> 'producer', extract(epoch from vt - enqueued_at)::int from pgmq.q_hr_default order by msg_id"""


def mail(to: str) -> None:
    """A call for after the commit."""


async def publish_one(caller: Caller) -> None:
    await caller.one(EVENTS[0])


async def publish_several(caller: Caller) -> None:
    await caller.many(EVENTS)


async def send(caller: Caller) -> UUID:
    action_id: UUID = await caller.call(send_action, send_action_async, "work", {"note": "ünï 😀"})
    return action_id


async def record_call(caller: Caller) -> None:
    recorded: Any = AfterCommit(mail, action="after-commit:mail", namespace=None).after_commit(caller.conn, "ada")
    assert isinstance(await recorded if caller.asynchronous else recorded, UUID)


WRITES: dict[str, Callable[[Caller], Awaitable[object]]] = {
    "publish": publish_one,
    "publish_many": publish_several,
    "send_action": send,
    "after_commit": record_call,
}


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Target]:
    """One for all tests of this file: each begins with an empty outbox and an empty queue."""
    with own_database(server, template="headrace_template") as target:
        with connect(target) as conn:
            create_topic(conn, "orders")
        yield target


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with connect(database) as connection:
        connection.execute("delete from headrace_internal.outbox")
        connection.execute("delete from pgmq.q_hr_default")
        yield connection


@pytest.fixture(params=CALLERS)
async def caller(request: pytest.FixtureRequest, database: Target, conn: Connection) -> AsyncIterator[Caller]:
    async with CALLERS[request.param](database.dsn) as open_caller:
        yield open_caller


# The statements of a pipeline are one transaction until it is synchronized.
@pytest.fixture(params=[name for name in CALLERS if "pipeline" not in name])
async def autocommit_caller(request: pytest.FixtureRequest, database: Target, conn: Connection) -> AsyncIterator[Caller]:
    async with CALLERS[request.param](database.dsn, autocommit=True) as open_caller:
        yield open_caller


def written(conn: Connection) -> int:
    row = conn.execute("select (select count(*) from headrace.outbox) + (select count(*) from pgmq.q_hr_default)").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("name", WRITES)
async def test_write_commits_with_the_transaction(name: str, caller: Caller, conn: Connection) -> None:
    await WRITES[name](caller)
    assert written(conn) == 0
    await caller.finish(True)
    assert written(conn) == (3 if name == "publish_many" else 1)


@pytest.mark.parametrize("name", WRITES)
async def test_write_vanishes_with_the_transaction(name: str, caller: Caller, conn: Connection) -> None:
    await WRITES[name](caller)
    await caller.finish(False)
    assert written(conn) == 0


@pytest.mark.parametrize("name", WRITES)
async def test_write_in_autocommit_mode_commits_at_once(name: str, autocommit_caller: Caller, conn: Connection) -> None:
    for times in (1, 2):
        await WRITES[name](autocommit_caller)
        assert written(conn) == times * (3 if name == "publish_many" else 1)


async def test_options_of_an_action_mean_the_same_on_every_driver(caller: Caller, conn: Connection) -> None:
    own_id = UUID("0190b2f0-7e3a-7000-8000-000000000001")
    options = {"key": "k", "priority": 3, "event_type": "placed", "producer": "shop", "delay": timedelta(days=1, seconds=90)}
    action_id = await caller.call(send_action, send_action_async, "work", {"note": "ünï 😀"}, id=own_id, **options)
    unique = {"unique_key": str(uuid4()), "unique_for": timedelta(minutes=5)}
    first = await caller.call(send_action, send_action_async, "other", **unique)
    assert await caller.call(send_action, send_action_async, "other", **unique) == first
    await caller.finish(True)
    assert (action_id, type(action_id), type(first)) == (own_id, UUID, UUID)
    assert conn.execute(SENT).fetchall() == [
        ("work", {"note": "ünï 😀"}, "k", 3, "placed", "shop", 86490),
        ("other", None, None, 0, None, None, 0),
    ]


async def test_error_of_the_database_is_an_error_of_our_tree(caller: Caller, conn: Connection) -> None:
    with pytest.raises(Invalid, match="the delay of an action cannot be"):
        await caller.call(send_action, send_action_async, "work", delay=timedelta(seconds=-1))
    await caller.finish(False)
    with pytest.raises(InvalidEventType, match="is not a name"):
        await caller.call(send_action, send_action_async, "no name")


async def test_connection_of_the_other_form_is_rejected_with_the_right_function(caller: Caller) -> None:
    other = Caller(caller.conn, caller.finish, not caller.asynchronous)
    advice = "use the function without _async" if other.asynchronous else "ends in _async"
    for write in (publish_one, publish_several, send):
        with pytest.raises(Invalid, match=advice):
            await write(other)
    await caller.finish(False)


@pytest.mark.parametrize("wrong", [None, 5, "postgresql://localhost", object()])
async def test_other_object_is_rejected_with_the_supported_connections(wrong: object) -> None:
    for write in (publish_one, publish_several, send):
        for is_async in (False, True):
            with pytest.raises(Invalid, match=r"is not a connection that headrace works on; give one of psycopg\.Connection"):
                await write(Caller(wrong, None, is_async))  # type: ignore[arg-type]
