"""A batch goes by COPY if the role may, else by the SQL function; a sleeping sequencer is woken once."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from headrace.core import Event, Invalid, InvalidEventType, NotMigrated, UnknownTopic
from headrace.db import Connection, Target, connect, map_database_errors
from headrace.log.outbox import publish, publish_many
from tests.builders import notifications

EVENTS = [Event(topic="orders", type="order.placed", payload={"n": n}, key=f"k{n}", headers={"n": n}) for n in range(3)]


@pytest.fixture
def orders(conn: Connection) -> Connection:
    conn.execute("select headrace.create_topic('orders')")
    return conn


@pytest.fixture
def clerk(orders: Connection, database: Target) -> Iterator[Connection]:
    """A session of a role that may publish and nothing else."""
    orders.execute("create role clerk; select headrace.grant_namespace('clerk', 'default', 'publish')")
    with connect(database) as session:
        session.execute("set role clerk")
        yield session
    orders.execute("drop owned by clerk; drop role clerk")


def copies(conn: Connection) -> int:
    """The number of rows that did not come through the SQL function."""
    return conn.execute("select count(*) from headrace.outbox where producer is distinct from 'function'").fetchone()[0]


@pytest.fixture
def marked(orders: Connection) -> Connection:
    """A database whose SQL function writes its own producer."""
    source = orders.execute("select pg_get_functiondef('headrace.publish_many'::regproc)").fetchone()[0]
    changed = source.replace("e.event ->> 'producer' as producer", "'function' as producer")
    assert changed != source
    orders.execute(changed)
    return orders


@pytest.mark.parametrize("attribute", ["nobypassrls", "bypassrls"])
def test_role_publishes_through_the_sql_function(marked: Connection, clerk: Connection, attribute: str) -> None:
    """Nobody but the owner may COPY into the outbox."""
    marked.execute(f"alter role clerk {attribute}")
    publish_many(clerk, EVENTS)
    assert copies(marked) == 0
    rows = marked.execute("select event_id, payload, key, headers from headrace.outbox order by id").fetchall()
    assert rows == [(event.id, event.payload, event.key, event.headers) for event in EVENTS]


@pytest.mark.parametrize("many", [False, True])
def test_unknown_topic_leaves_the_transaction_of_a_role_usable(marked: Connection, clerk: Connection, many: bool) -> None:
    unknown = Event(topic="ordrs", type="order.placed")
    with clerk.transaction():
        with pytest.raises(UnknownTopic, match="ordrs"):
            publish_many(clerk, [EVENTS[0], unknown]) if many else publish(clerk, "ordrs", "order.placed")
        publish_many(clerk, EVENTS)
    assert marked.execute("select event_id from headrace.outbox order by id").fetchall() == [(event.id,) for event in EVENTS]


@pytest.mark.parametrize("many", [False, True])
def test_sqlalchemy_in_autocommit_mode_reports_an_unknown_topic(orders: Connection, database: Target, many: bool) -> None:
    engine = sqlalchemy.create_engine(database.dsn.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with Session(engine) as session:
        with pytest.raises(UnknownTopic, match="Known topics: orders"):
            publish_many(session, [Event(topic="ordrs", type="a")]) if many else publish(session, "ordrs", "a")
        publish_many(session, EVENTS)
    engine.dispose()
    assert orders.execute("select count(*) from headrace.outbox").fetchone() == (3,)


@pytest.mark.parametrize(
    "statement",
    [
        "select headrace.publish('ordrs', 'a', '1', p_missing_ok => true)",
        'select headrace.publish_many(\'[{"topic": "orders", "type": "a"}, {"topic": "ordrs", "type": "a"}]\', p_missing_ok => true)',
    ],
)
def test_sql_function_may_return_null_for_an_unknown_topic(orders: Connection, clerk: Connection, statement: str) -> None:
    for conn in (orders, clerk):
        assert conn.execute(statement).fetchall() in ([(None,)], [])
    assert orders.execute("select count(*) from headrace.outbox").fetchone() == (0,)


def test_autocommit_batch_is_all_or_nothing(orders: Connection, second: Connection) -> None:
    publish_many(second, EVENTS)
    with pytest.raises(UnknownTopic):
        publish_many(second, [*EVENTS, Event(topic="none", type="a")])
    assert second.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert orders.execute("select count(*) from headrace.outbox").fetchone() == (3,)


def test_generator_may_read_from_the_same_connection(orders: Connection) -> None:
    orders.execute("create table sale (id int); insert into sale select generate_series(1, 1000)")
    sales = orders.execute("select id from sale order by id")
    assert len(publish_many(orders, (Event(topic="orders", type="sale", payload=id) for (id,) in sales))) == 1000


def test_sqlalchemy_in_autocommit_mode_sends_one_statement(marked: Connection, database: Target) -> None:
    engine = sqlalchemy.create_engine(database.dsn.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with Session(engine) as session:
        publish_many(session, EVENTS)
    engine.dispose()
    assert (copies(marked), marked.execute("select count(*) from headrace.outbox").fetchone()) == (0, (3,))


def test_client_in_another_encoding_publishes_the_same_text(orders: Connection, second: Connection) -> None:
    second.execute("set client_encoding = 'LATIN1'")
    publish_many(second, [Event(topic="orders", type="a", payload="ä€😀", key="ü")])
    publish(second, "orders", "a", "ä€😀", key="ü")
    assert orders.execute("select payload, key from headrace.outbox").fetchall() == [("ä€😀", "ü")] * 2


@pytest.mark.parametrize("asleep", [True, False])
@pytest.mark.parametrize("way", ["one", "copy", "function"])
def test_sequencer_is_woken_once_when_the_topic_sleeps(orders: Connection, second: Connection, asleep: bool, way: str) -> None:
    orders.execute("update headrace_internal.topic set asleep = %s", (asleep,))
    second.execute("listen headrace_outbox")
    with orders.transaction():
        if way == "one":
            publish(orders, "orders", "order.placed")
        elif way == "copy":
            publish_many(orders, EVENTS)
        else:
            orders.execute("""select headrace.publish_many('[{"topic": "orders", "type": "a"}]')""")
    assert notifications(second, orders) == int(asleep)


def test_old_snapshot_cannot_leave_the_sequencer_asleep(orders: Connection, second: Connection, database: Target) -> None:
    orders.execute("update headrace_internal.topic set asleep = false")
    second.execute("listen headrace_outbox")
    with psycopg.connect(database.dsn) as publisher:
        publisher.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        publisher.execute("select 1 from headrace.topic")
        orders.execute("update headrace_internal.topic set asleep = true")
        publish_many(publisher, EVENTS)
    assert notifications(second, orders) > 0


def test_sql_function_takes_defaults(orders: Connection) -> None:
    ids = orders.execute(
        "select headrace.publish_many(%s)", ['[{"topic": "orders", "type": "a"}, {"topic": "orders", "type": "b", "key": "k"}]']
    ).fetchall()
    rows = orders.execute("select event_id, type, key, payload, headers from headrace.outbox order by id").fetchall()
    assert rows == [(ids[0][0], "a", None, None, {}), (ids[1][0], "b", "k", None, {})]


@pytest.mark.parametrize(
    ("events", "error", "reason"),
    [
        ("{}", Invalid, "events are object, not an array"),
        ("[1]", Invalid, "an event is number, not an object"),
        ('[{"topic": "orders", "type": "a", "pyload": 1}]', Invalid, 'unknown member "pyload"'),
        ('[{"type": "a"}]', UnknownTopic, 'no topic ""'),
        ('[{"topic": "orders", "type": "a"}, {"topic": "orders", "type": "b  c"}]', InvalidEventType, "b  c"),
        ('[{"topic": "orders", "type": "a", "headers": []}]', Invalid, "headers must be"),
        ('[{"topic": "orders", "type": "a", "id": "x"}]', Invalid, "uuid"),
    ],
)
def test_sql_function_rejects_invalid_events(orders: Connection, events: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason), map_database_errors():
        orders.execute("select headrace.publish_many(%s)", [events])
    assert orders.execute("select count(*) from headrace.outbox").fetchone() == (0,)


def test_database_without_headrace_says_what_to_run(conn: Connection) -> None:
    conn.execute("drop schema headrace cascade")
    with pytest.raises(NotMigrated, match="headrace migrate"):
        publish(conn, "orders", "a")
    with pytest.raises(NotMigrated, match="headrace migrate"):
        publish_many(conn, EVENTS)
