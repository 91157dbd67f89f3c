"""The INSERT of the library: the same rows as by the function, on every driver, and safe with every role."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.core import Event, UnknownTopic
from headrace.db import Connection, Server, Target, connect, create_namespace, grant_namespace, grant_node
from headrace.log.outbox import publish, publish_many, publishing
from headrace.log.topics import create_topic
from tests.builders import drain, notifications, own_database
from tests.drivers.callers import CALLERS
from tests.log.outbox.test_publish import expected, full_event, stored

# In pipeline mode the number of inserted rows is not known yet, so the function is used.
DIRECT_CALLERS = {name: caller for name, caller in CALLERS.items() if "pipeline" not in name}


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Target]:
    """One for all tests of this file: each begins with an empty outbox."""
    with own_database(server, template="headrace_template") as target:
        with connect(target) as conn:
            for namespace in ("shop", "bank"):
                create_namespace(conn, namespace)
                create_topic(conn, "orders", namespace=namespace)
            create_topic(conn, "orders")
        yield target


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with connect(database) as connection:
        drain(connection)
        yield connection


@pytest.fixture
def tenant(conn: Connection) -> Iterator[str]:
    """A role that may publish in the namespace shop."""
    role = f"role_{uuid4().hex[:12]}"
    conn.execute(f"create role {role} login")
    grant_namespace(conn, role, "shop", "publish")
    yield role
    conn.execute("reset role")
    conn.execute(f"drop owned by {role}")
    conn.execute(f"drop role {role}")


@pytest.fixture
def no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """After this, publishing by the function fails."""

    def fail(*_: object) -> None:
        raise AssertionError("it was published by the function")

    monkeypatch.setattr(publishing, "_publish_by_function", fail)


@pytest.mark.parametrize("name", DIRECT_CALLERS)
async def test_direct_insert_writes_the_same_row_as_the_function(
    name: str, database: Target, conn: Connection, request: pytest.FixtureRequest
) -> None:
    short = Event(topic="orders", type="order.paid", payload={"n": 1, "note": "ünï"}, id=uuid4())
    async with DIRECT_CALLERS[name](database.dsn) as caller:
        by_function, by_insert = full_event(1), full_event(2)
        await caller.one(by_function)
        await caller.one(short)
        request.getfixturevalue("no_function")
        await caller.one(by_insert)
        again = Event(topic="orders", type="order.paid", payload={"n": 1, "note": "ünï"}, id=uuid4())
        await caller.one(again)
        await caller.finish(True)
    rows = stored(conn)
    assert rows[0] == expected(by_function) and rows[2] == expected(by_insert)
    # All but the id and the time, which the database sets.
    assert [value for place, value in enumerate(rows[1]) if place not in (0, 5)] == [
        value for place, value in enumerate(rows[3]) if place not in (0, 5)
    ]
    assert rows[3][0] == again.id


def test_role_that_is_set_in_the_transaction_publishes_with_its_own_rights(conn: Connection, tenant: str) -> None:
    publish(conn, "orders", "a", 1)
    with conn.transaction():
        publish(conn, "orders", "a", 2)
        conn.execute(f"set local role {tenant}")
        publish(conn, "orders", "a", 3, namespace="shop")
        with pytest.raises(UnknownTopic):
            publish(conn, "none", "a", namespace="shop")
        publish(conn, "orders", "a", 4, namespace="shop")
    publish(conn, "orders", "a", 5)
    # A topic it must not see looks like one that does not exist.
    with pytest.raises(UnknownTopic), conn.transaction():
        conn.execute(f"set local role {tenant}")
        publish(conn, "orders", "a", 6, namespace="bank")
    assert [row[3] for row in stored(conn)] == [1, 2, 3, 4, 5]


def test_statement_calls_no_function_of_a_tenant_for_each_topic(conn: Connection, database: Target, tenant: str) -> None:
    """Such a function, whatever it claims to be, would tell how many topics there are. It is called once for each value."""
    # A role that has got the right to the sequence is not stopped by the lack of it.
    conn.execute(f"grant usage on sequence headrace_internal.outbox_id_seq to {tenant}")
    conn.execute("update headrace_internal.topic set asleep = true")
    conn.execute("set enable_indexscan = off; set enable_bitmapscan = off")
    with psycopg.connect(make_conninfo(database.dsn, user=tenant), autocommit=True) as session:
        session.execute("set enable_indexscan = off; set enable_bitmapscan = off")
        notices: list[str] = []
        session.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        for number, volatility in enumerate(("volatile", "stable", "immutable")):
            session.execute(
                f"""create or replace function pg_temp.peek_{number}(text) returns text language plpgsql {volatility} cost 0.0000001 as
                    $$ begin raise notice '%', $1; return $1; end $$"""
            )
            for namespace, error in (("bank", psycopg.errors.InsufficientPrivilege), ("shop", None)):
                peek = f"""insert into headrace.event_0 (namespace, topic, type, payload, is_checked)
                    select pg_temp.peek_{number}(t), pg_temp.peek_{number}('orders'), pg_temp.peek_{number}('a'), '1', true
                    from (values (%s::text)) v (t)"""
                notices.clear()
                if error is None:
                    assert session.execute(peek, (namespace,)).rowcount == 1
                else:
                    # A topic it must not see looks like one that does not exist.
                    with pytest.raises((error, UnknownTopic, psycopg.Error)):
                        session.execute(peek, (namespace,))
                assert len(notices) <= 6, notices
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("select * from headrace.event_0")
        # The lock of a view is that of the tables it selects from: of none.
        with session.transaction():
            session.execute("lock table headrace.event_0 in row exclusive mode")
            conn.execute(
                "begin; set local lock_timeout = '1s'; lock table headrace_internal.outbox, headrace_internal.topic; commit"
            )
    conn.execute(f"revoke usage on sequence headrace_internal.outbox_id_seq from {tenant}")
    conn.execute("reset enable_indexscan; reset enable_bitmapscan")


def test_node_role_goes_direct(conn: Connection, database: Target, request: pytest.FixtureRequest) -> None:
    role = f"node_{uuid4().hex[:12]}"
    conn.execute(f"create role {role} login")
    grant_node(conn, role)
    with psycopg.connect(make_conninfo(database.dsn, user=role), autocommit=True) as session:
        publish(session, "orders", "a", 1)
        request.getfixturevalue("no_function")
        publish(session, "orders", "a", 2)
    assert [row[3] for row in stored(conn)] == [1, 2]
    conn.execute(f"drop owned by {role}")
    conn.execute(f"drop role {role}")


def test_direct_insert_wakes_a_sleeping_sequencer(conn: Connection, database: Target, request: pytest.FixtureRequest) -> None:
    publish(conn, "orders", "a", 1)
    drain(conn)
    conn.execute("set headrace.notify = on")
    request.getfixturevalue("no_function")
    with connect(database) as listener:
        listener.execute("listen headrace_outbox")
        publish(conn, "orders", "a", 2)
        assert notifications(listener, conn) == 0
        drain(conn)
        conn.execute("update headrace_internal.topic set asleep = true")
        publish(conn, "orders", "a", 3)
        assert notifications(listener, conn) == 1


def test_payload_that_keeps_its_schema_goes_the_direct_way_but_never_by_copy(
    conn: Connection, database: Target, request: pytest.FixtureRequest
) -> None:
    create_topic(conn, "checked")
    conn.execute("update headrace_internal.topic set checks_payloads = true where topic = 'checked'")
    request.getfixturevalue("no_function")
    with connect(database) as session:
        publish(session, "orders", "a", 1)
        publish(session, "checked", "a", 2)
        publish_many(session, [Event(topic="checked", type="a", payload=3), Event(topic="orders", type="a", payload=4)])
        assert session.execute("select count(*) from headrace.copy_route(array['checked'])").fetchone() == (0,)
    assert [row[3] for row in stored(conn)] == [1, 2, 3, 4]
