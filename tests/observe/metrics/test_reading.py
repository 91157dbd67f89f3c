"""The numbers of a database: right, bounded, cheap, and only of the namespaces that the reader may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace.consume import consumer_lag
from headrace.db import Connection, Target, create_pool, query
from headrace.log.topics import create_topic
from headrace.observe.metrics import DatabaseMetrics
from headrace.rules import RuleEngine
from tests.builders import drain, fill, publish, rows_read, shift_clock, topic
from tests.observe.metrics.conftest import consumer, values
from tests.rules.conftest import reacting

LAG = ("default", "orders", "mailer")


def move(conn: Connection, position: int, *, partition: int = 0) -> None:
    """Moves a cursor of the only consumer."""
    conn.execute("update headrace_internal.cursor set position = %s where partition = %s", (position, partition))


@asynccontextmanager
async def metrics_of(database: Target, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DatabaseMetrics]:
    """The metrics as a node reads them, each time anew."""
    monkeypatch.setattr("headrace.observe.metrics.families.AGE_MIN_S", 0)
    pool = create_pool(database, size=1)
    await pool.open()
    try:
        yield DatabaseMetrics(pool)
    finally:
        await pool.close()


async def value(metrics: DatabaseMetrics, metric: str, *labels: str) -> float | None:
    values = [s.value for s in await metrics.read() if s.family.name == f"headrace_{metric}" and s.labels == labels]
    assert metrics.error is None
    return values[0] if values else None


@pytest.mark.parametrize("ordered_by", ["partition", "topic"])
def test_lag_is_the_difference_of_positions(conn: Connection, ordered_by: str) -> None:
    topic(conn)
    consumer(conn, ordered_by=ordered_by)
    assert values(conn, "consumer_lag_events") == {LAG: 0} and values(conn, "consumer_lag_seconds") == {LAG: 0}
    fill(conn, 10)
    move(conn, 7, partition=-1 if ordered_by == "topic" else 0)
    assert values(conn, "consumer_lag_events") == {LAG: 3}
    assert values(conn, "sequenced_events_total") == {("default", "orders"): 10}


def test_lag_seconds_is_the_age_of_the_oldest_event_not_handled(conn: Connection) -> None:
    topic(conn)
    consumer(conn)
    fill(conn, 2)
    shift_clock(conn, "10 minutes")
    fill(conn, 2)
    shift_clock(conn, "15 minutes")
    assert values(conn, "consumer_lag_seconds")[LAG] == pytest.approx(900, abs=5)
    move(conn, 3)
    assert values(conn, "consumer_lag_seconds")[LAG] == pytest.approx(300, abs=5)
    move(conn, 4)
    assert values(conn, "consumer_lag_seconds")[LAG] == 0


def test_lag_of_a_topic_with_the_time_of_its_events_is_in_that_time(conn: Connection) -> None:
    """Twenty years ago, ten minutes apart: the third event is ten minutes behind the fourth, not twenty years behind the server."""
    create_topic(conn, "orders", clock="event")
    consumer(conn)
    for minute in (0, 10, 20, 30):
        conn.execute(
            "select headrace.publish('orders', 'a', '{}', p_emitted_at => '2004-01-01T00:00:00Z'::timestamptz + %s * interval '1 minute')",
            (minute,),
        )
    drain(conn)
    for position, age_s in ((0, 1800), (2, 600), (3, 0), (4, 0)):
        move(conn, position)
        assert values(conn, "consumer_lag_seconds")[LAG] == age_s
        assert [row.lag_s for row in consumer_lag(conn)] == [age_s]
        cursors = conn.execute(query("web/console/cursors"), {"namespace": None, "topic": None, "consumer": None}).fetchall()
        assert [row[-1] for row in cursors] == [age_s]


@pytest.mark.parametrize("clock", ["server", "event"])
def test_lag_reaches_over_time_partitions(conn: Connection, clock: str) -> None:
    """Events of last month, and a head that is in an older partition than the one written now."""
    conn.execute("select headrace.create_topic('orders', p_clock => %s)", (clock,))
    consumer(conn)
    fill(conn, 3)
    for month in (1, 2):
        shift_clock(conn, f"{month * 31} days")
        fill(conn, 3)
    assert values(conn, "consumer_lag_events") == {LAG: 9}
    assert values(conn, "consumer_lag_seconds")[LAG] == pytest.approx(62 * 86400, rel=0.01)
    shift_clock(conn, "200 days")
    assert values(conn, "sequenced_events_total") == {("default", "orders"): 9}, "no event for months"
    shift_clock(conn, "0 days")
    assert values(conn, "sequenced_events_total") == {("default", "orders"): 9}, "the clock went back"


def test_lag_of_partitions_counts_only_their_own_events(conn: Connection) -> None:
    topic(conn, partitions=3)
    consumer(conn)
    fill(conn, 90, keys=7)
    expected = conn.execute("select sum(lag_events) from headrace.consumer_lag").fetchone()
    assert values(conn, "consumer_lag_events") == {LAG: 90} and expected == (90,)
    conn.execute("update headrace_internal.cursor set position = 45 where partition = 1")
    # Caught up, although events of other partitions follow.
    conn.execute("""update headrace_internal.cursor u set position = (
        select max(l.position) from headrace_internal.log l where l.partition = 2) where u.partition = 2""")
    [(events,)] = conn.execute("select sum(lag_events) from headrace.consumer_lag").fetchall()
    assert 0 < events < 90 and values(conn, "consumer_lag_events") == {LAG: events}


def test_large_lag_of_partitions_is_an_estimate_that_ends_with_the_head(conn: Connection) -> None:
    topic(conn, partitions=2)
    consumer(conn)
    fill(conn, 3000)
    assert values(conn, "consumer_lag_events")[LAG] == pytest.approx(3000, abs=2)


def test_a_lag_of_many_events_is_not_counted(conn: Connection) -> None:
    topic(conn)
    consumer(conn)
    fill(conn, 5000)
    with conn.transaction():
        leaf = conn.execute("select headrace_internal.current_log_partition(topic_id, clock, time_partition) from headrace.topic")
        [(name,)] = leaf.fetchall()
        assert values(conn, "consumer_lag_events") == {LAG: 5000}
        assert rows_read(conn, name.removeprefix("headrace_internal.")) < 10


def test_outbox_counts_what_is_not_in_the_log(conn: Connection) -> None:
    topic(conn)
    topic(conn, "other")
    assert values(conn, "outbox_waiting") == {}
    for n in range(3):
        publish(conn, n)
    assert values(conn, "outbox_waiting") == {("default", "orders"): 3}
    drain(conn)
    assert values(conn, "outbox_waiting") == {}


def test_a_large_outbox_is_estimated(conn: Connection) -> None:
    topic(conn)
    with conn.transaction():
        conn.execute("select headrace.publish('orders', 'placed', '1') from generate_series(1, 12000)")
    conn.execute("select pg_stat_force_next_flush()")
    conn.execute("select 1")
    assert values(conn, "outbox_waiting")[("default", "orders")] == 12000


def test_queue_by_state(conn: Connection) -> None:
    conn.execute("select headrace.send_action('mail', '{}')")
    conn.execute("select headrace.send_action('mail', '{}', p_delay => '100 seconds')")
    conn.execute("select headrace.send_action('other', '{}')")
    conn.execute("select headrace.claim_actions('{other}', 10, 30)")
    queue = {labels[1]: count for labels, count in values(conn, "action_queue").items()}
    assert queue == {"due": 1, "delayed": 1, "in-flight": 1, "retrying": 0, "held": 0}


def test_wait_of_the_oldest_due_action(conn: Connection) -> None:
    conn.execute("select headrace.send_action('mail', '{}', p_delay => '100 seconds')")
    assert values(conn, "action_wait_seconds") == {("default",): 0}
    conn.execute("select headrace.send_action('mail')")
    shift_clock(conn, "90 seconds")
    [wait_s] = values(conn, "action_wait_seconds").values()
    assert 90 <= wait_s < 100
    shift_clock(conn, "500 seconds")
    conn.execute("select headrace.claim_actions('{mail}', 1, 30)")
    [wait_s] = values(conn, "action_wait_seconds").values()
    assert 400 <= wait_s < 450, "the other one fell due later"


def test_a_long_queue_is_estimated(conn: Connection) -> None:
    with conn.transaction():
        conn.execute("select headrace.send_action('mail') from generate_series(1, 3000)")
    conn.execute("select pg_stat_force_next_flush()")
    conn.execute("select 1")
    assert values(conn, "action_queue")[("default", "due")] == 3000


def test_dead_letters_by_kind_and_reason(conn: Connection) -> None:
    topic(conn)
    consumer(conn)
    fill(conn, 2)
    for n in range(3):
        conn.execute("select headrace.send_action('mail', to_jsonb(%s::int))", (n,))
    conn.execute(
        "select headrace.bury_actions(array(select msg_id from headrace.claim_actions('{mail}', 2, 30)), 'no_handler', 'x', null)"
    )
    conn.execute("""insert into headrace_internal.dead_letter
        (consumer_id, partition, position, event_id, type, payload, headers, state, reason, attempts)
        select c.consumer_id, 0, p, gen_random_uuid(), 't', '{}', '{}', s, 'handler failed', 1
        from headrace_internal.consumer c, unnest('{dead,behind,redriven}'::text[]) with ordinality x (s, p)""")
    assert values(conn, "dead_letters") == {
        ("default", "action", "no_handler"): 2,
        ("default", "event", "handler failed"): 2,
    }


def test_lost_node_is_down_and_a_stopped_one_is_gone(conn: Connection) -> None:
    for name in ("web-1", "web-2"):
        conn.execute("select headrace.register_node(gen_random_uuid(), %s, '1', '{}', null, '{}', null)", (name,))
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '2 minutes' where name = 'web-2'")
    assert values(conn, "node_up") == {("default", "web-1"): 1, ("default", "web-2"): 0}
    conn.execute("update headrace_internal.node set stopped_at = headrace.clock()")
    assert values(conn, "node_up") == {}


def test_log_bytes_grow_with_the_log(conn: Connection) -> None:
    topic(conn)
    assert values(conn, "log_bytes") == {("default", "orders"): 0}
    fill(conn, 1000)
    [(expected,)] = (
        conn.execute("""select sum(pg_total_relation_size(i.inhrelid)) from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = (select ('headrace_internal.log_' || topic_id)::regclass from headrace.topic) and pg_relation_size(c.oid) > 0""")
    )
    assert values(conn, "log_bytes") == {("default", "orders"): expected} and expected > 100_000


async def test_head_of_a_topic_that_slept_is_read_again(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn)
    consumer(conn)
    fill(conn, 5)
    conn.execute("update headrace_internal.topic set asleep = true")
    async with metrics_of(database, monkeypatch) as metrics:
        for _ in range(2):
            assert await value(metrics, "sequenced_events_total", "default", "orders") == 5
        fill(conn, 2)
        conn.execute("update headrace_internal.topic set asleep = true")
        assert await value(metrics, "sequenced_events_total", "default", "orders") == 7
        age_s = await value(metrics, "consumer_lag_seconds", *LAG)
        conn.execute("select headrace.advance(consumer_id, 0, 6) from headrace.consumer")
        assert await value(metrics, "consumer_lag_events", *LAG) == 1
        after_s = await value(metrics, "consumer_lag_seconds", *LAG)
        assert age_s is not None and after_s is not None and after_s < age_s


async def test_firings_are_counted_by_rule_from_the_first_scrape_on(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn)
    for name, condition in (("all", "true"), ("odd", "key = 'k1'")):
        conn.execute(
            "insert into headrace.rule (rule, topic, event_type, condition, action) values (%s, 'orders', 'placed', %s, 'mail')",
            (name, condition),
        )
    async with reacting(database) as engine, metrics_of(database, monkeypatch) as metrics:
        await engine.compile_once()
        await react(conn, engine, 2)
        assert await value(metrics, "rule_firings_total", "default", "orders", "all") is None, "those before are not known"
        await react(conn, engine, 3)
        assert await value(metrics, "rule_firings_total", "default", "orders", "all") == 3
        assert await value(metrics, "rule_firings_total", "default", "orders", "odd") == 2
        await react(conn, engine, 1)
        assert await value(metrics, "rule_firings_total", "default", "orders", "all") == 4
        assert await value(metrics, "rule_firings_total", "default", "orders", "all") == 4, "counted once"


async def react(conn: Connection, engine: RuleEngine, events: int) -> None:
    fill(conn, events, keys=2)
    [topic] = await engine.watched()
    while await engine.fire_once(topic):
        pass


async def test_scrapes_at_the_same_time_share_one_reading(conn: Connection, database: Target) -> None:
    pool = create_pool(database, size=1)
    await pool.open()
    try:
        metrics = DatabaseMetrics(pool)
        first, *others = await asyncio.gather(*(metrics.read() for _ in range(20)))
        assert first and all(other is first for other in others)
    finally:
        await pool.close()
