"""Topics: create, alter, list, drop, with clear errors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.consume import Consumer, create_consumer
from headrace.core import Invalid, TooFewPartitions, TopicBusy, TopicExists, TopicInUse, UnknownTopic
from headrace.db import Connection
from headrace.log.topics import alter_topic, create_topic, drop_topic, get_topic, list_topics
from tests.builders import drain, fill, numbers, publish, topic, trim_outbox


async def ignore(event: object, tx: object) -> None: ...


def test_topic_reports_its_size(conn: Connection) -> None:
    topic(conn, partitions=3)
    fill(conn, 5)
    publish(conn, 6)
    stored = get_topic(conn, "orders")
    assert (stored.partitions, stored.events, stored.last_position, stored.waiting) == (3, 5, 5, 1)


def test_creating_and_dropping_a_topic_keeps_the_session_settings(conn: Connection) -> None:
    conn.execute("set search_path = public, pg_catalog")
    topic(conn)
    drop_topic(conn, "orders")
    assert conn.execute("show search_path").fetchone() == ("public, pg_catalog",)


def test_topics_are_listed_by_name(conn: Connection) -> None:
    topic(conn, "b"), topic(conn, "a")
    assert [one.topic for one in list_topics(conn)] == ["a", "b"]


def test_second_topic_with_the_same_name_is_rejected(conn: Connection) -> None:
    topic(conn)
    with pytest.raises(TopicExists, match='topic "orders" already exists'):
        topic(conn)


@pytest.mark.parametrize("name", ["", "Orders", "or ders", "1orders", "x" * 101, "orders;drop"])
def test_invalid_name_is_rejected(conn: Connection, name: str) -> None:
    with pytest.raises(Invalid, match="invalid topic name; a name begins with"):
        create_topic(conn, name)


@pytest.mark.parametrize("partitions", [0, 1025])
def test_partitions_have_a_limit(conn: Connection, partitions: int) -> None:
    with pytest.raises(Invalid, match="topic_partitions_1_to_1024"):
        create_topic(conn, "orders", partitions=partitions)


def test_unknown_topic_names_the_known_ones(conn: Connection) -> None:
    topic(conn, "orders")
    with pytest.raises(UnknownTopic, match=r'no topic "order" .*Known topics: orders'):
        get_topic(conn, "order")


def test_fewer_partitions_are_rejected(conn: Connection) -> None:
    topic(conn, partitions=4)
    with pytest.raises(TooFewPartitions, match="has 4 partitions; 2 would be fewer"):
        alter_topic(conn, "orders", partitions=2)


def test_retention_is_set_and_removed(conn: Connection) -> None:
    topic(conn)
    alter_topic(conn, "orders", retention=timedelta(days=30))
    assert get_topic(conn, "orders").retention == timedelta(days=30)
    alter_topic(conn, "orders", retention=timedelta(0))
    assert get_topic(conn, "orders").retention is None


def test_topic_with_consumers_is_dropped_only_by_force(conn: Connection) -> None:
    topic(conn)
    create_consumer(conn, Consumer(topic="orders", name="mailer", handler=ignore))
    with pytest.raises(TopicInUse, match="has consumers: mailer"):
        drop_topic(conn, "orders")
    drop_topic(conn, "orders", force=True)
    assert list_topics(conn) == []


def test_topic_created_again_starts_empty(conn: Connection, second: Connection) -> None:
    """Even if a publisher's transaction was open while the old one was dropped."""
    topic(conn)
    fill(conn, 3)
    with second.transaction():
        publish(second, 99)
        drop_topic(conn, "orders")
    topic(conn)
    publish(conn, 1)
    drain(conn)
    assert numbers(conn) == [1]
    trim_outbox(conn)
    assert conn.execute("select count(*) from headrace.outbox").fetchone() == (0,)


@pytest.mark.lane("pg18")
def test_drop_gives_up_on_a_topic_whose_cursor_is_held(conn: Connection, second: Connection) -> None:
    topic(conn)
    create_consumer(conn, Consumer(topic="orders", name="mailer", handler=ignore))
    with second.transaction():
        second.execute("select from headrace_internal.cursor for no key update")
        with pytest.raises(TopicBusy, match=r'topic "orders" is not dropped: .* try again when the handlers'):
            drop_topic(conn, "orders", force=True)
        fill(conn, 1)
        assert numbers(conn) == [1]
    drop_topic(conn, "orders", force=True)
    assert list_topics(conn) == []


def test_topic_is_dropped_while_a_long_transaction_reads_the_log(conn: Connection, second: Connection) -> None:
    topic(conn), topic(conn, "bills")
    fill(conn, 2)
    with second.transaction():
        second.execute("lock table headrace_internal.log in access share mode")
        drop_topic(conn, "orders")
        fill(conn, 1, topic="bills")
        assert [row.topic for row in list_topics(conn)] == ["bills"]


def test_numbers_of_topics_start_again_after_the_last_one_and_leave_out_what_is_used(conn: Connection) -> None:
    """Whoever may create topics can use up numbers by rolling back."""
    first = [create_topic(conn, name) for name in ("a", "b", "c", "d")]
    assert first == [1, 2, 3, 4]
    publish(conn, 1, topic="b")
    drop_topic(conn, "b")
    conn.execute("delete from headrace_internal.dropped_topic")
    drop_topic(conn, "c")
    conn.execute(
        "insert into headrace_internal.firing (topic_id, event_id, rule_version_id, action, action_id) "
        "values (5, gen_random_uuid(), 1, 'A', gen_random_uuid())"
    )
    conn.execute("select setval('headrace_internal.topic_topic_id_seq', 2147483646)")
    with conn.transaction(force_rollback=True):
        assert create_topic(conn, "e") == 2147483647
    assert create_topic(conn, "e") == 6, "2 has an event in the outbox, 3 is being dropped, 5 has a firing"
    fill(conn, 2, topic="e")
    assert numbers(conn, "e") == [1, 2]


def test_number_that_a_role_can_use_up_is_a_bigint(conn: Connection) -> None:
    """A row that is rolled back keeps its number: at some thousands a second an integer lasts for days."""
    integers = conn.execute(
        """select a.attrelid::regclass::text from pg_attribute a join pg_sequence s
               on s.seqrelid = pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass
           where a.attrelid::regclass::text ~ '^headrace' and a.attidentity <> '' and a.atttypid <> 'bigint'::regtype and not s.seqcycle
           order by 1"""
    ).fetchall()
    assert [name for (name,) in integers] == ["headrace_internal.log_epoch", "headrace_internal.namespace"], (
        "the owner's and the nodes'"
    )
