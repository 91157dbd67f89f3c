"""The log loses nothing, shows nothing that was rolled back, has no gaps, and keeps order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from headrace.db import Connection, Target, connect, create_namespace
from headrace.log.topics import create_topic, read_log, sequence
from tests.builders import drain, fill, notifications, numbers, publish, shift_clock, topic, trim_outbox


def test_positions_rise_by_one_without_gaps(conn: Connection) -> None:
    topic(conn, partitions=4)
    fill(conn, 500, keys=7)
    fill(conn, 300)
    assert [event.position for event in read_log(conn, "orders", limit=1000)] == list(range(1, 801))


def test_each_topic_has_its_own_positions(conn: Connection) -> None:
    topic(conn, "a"), topic(conn, "b")
    for n in range(3):
        publish(conn, n, topic="a")
        publish(conn, n, topic="b")
    drain(conn)
    assert [event.position for event in read_log(conn, "b")] == [1, 2, 3]


def test_rolled_back_event_is_never_seen(conn: Connection, second: Connection) -> None:
    topic(conn)
    with pytest.raises(ZeroDivisionError), second.transaction():
        publish(second, 1)
        raise ZeroDivisionError
    publish(conn, 2)
    drain(conn)
    assert numbers(conn) == [2]


def test_crossing_transactions_lose_nothing(conn: Connection, second: Connection) -> None:
    """An id taken early and committed late gets its position when it commits; a reader by position sees both."""
    topic(conn)
    with second.transaction():
        publish(second, 1)
        publish(conn, 2)
        drain(conn)
        seen = read_log(conn, "orders")
        assert [event.payload for event in seen] == [2]
    drain(conn)
    assert [event.payload for event in read_log(conn, "orders", after=seen[-1].position)] == [1]


def test_a_cursor_on_the_serial_id_would_lose_the_late_event(conn: Connection, second: Connection) -> None:
    """The bug the log exists to prevent, seeded: the crossing above breaks a reader that trusts the outbox's own ids."""
    topic(conn)

    def newer_than(cursor: int) -> list[tuple[int, int]]:
        return conn.execute("select id, payload::int from headrace.outbox where id > %s order by id", (cursor,)).fetchall()

    with second.transaction():
        publish(second, 1)
        publish(conn, 2)
        (cursor, payload), *_ = newer_than(0)
        assert payload == 2
    assert newer_than(cursor) == []


def test_open_transaction_blocks_nobody(conn: Connection, second: Connection) -> None:
    topic(conn)
    with second.transaction():
        publish(second, 0)
        for n in range(1, 201):
            publish(conn, n)
        assert drain(conn) == 200
        assert numbers(conn) == list(range(1, 201))
    drain(conn)
    assert numbers(conn)[-1] == 0


def test_commit_order_of_one_producer_is_kept_across_connections(conn: Connection, database: Target) -> None:
    """A producer that takes a connection from a pool for each event: what it committed first stands first."""
    topic(conn)
    done = threading.Event()

    def keep_sequencing() -> None:
        with connect(database) as own:
            while not done.is_set():
                sequence(own, batch=7)

    with ThreadPoolExecutor() as threads, connect(database) as a, connect(database) as b:
        sequencer = threads.submit(keep_sequencing)
        for n in range(300):
            publish((a, b, conn)[n % 3], n, key="same")
        done.set()
        sequencer.result()
    drain(conn)
    assert numbers(conn) == list(range(300))


def test_two_sequencers_and_many_publishers_give_one_log(conn: Connection, database: Target) -> None:
    topic(conn, partitions=4)
    publishers, each = 4, 150
    done = threading.Event()

    def publish_own(publisher: int) -> None:
        with connect(database) as own:
            for n in range(each):
                with own.transaction():
                    publish(own, publisher * 1000 + n, key=f"p{publisher}")

    def keep_sequencing() -> int:
        with connect(database) as own:
            moved = 0
            while not done.is_set():
                moved += sum(one.events for one in sequence(own, batch=20))
            return moved

    with ThreadPoolExecutor() as threads:
        sequencers = [threads.submit(keep_sequencing) for _ in range(2)]
        for publishing in [threads.submit(publish_own, number) for number in range(publishers)]:
            publishing.result()
        done.set()
        for sequencer in sequencers:
            sequencer.result()
    drain(conn)
    events = read_log(conn, "orders", limit=10_000)
    assert [event.position for event in events] == list(range(1, publishers * each + 1))
    for number in range(publishers):
        own = [event.payload for event in events if event.key == f"p{number}"]
        assert own == [number * 1000 + n for n in range(each)]


def test_second_sequencer_skips_a_topic_that_is_held(conn: Connection, second: Connection) -> None:
    topic(conn)
    publish(conn, 1)
    with second.transaction():
        assert sum(one.events for one in sequence(second)) == 1
        publish(conn, 2)
        assert sequence(conn) == []
    assert drain(conn) == 1


@pytest.mark.parametrize("batch", [1, 100])
def test_same_event_id_twice_is_one_event(conn: Connection, batch: int) -> None:
    topic(conn)
    twin = uuid4()
    publish(conn, 1, id=twin)
    publish(conn, 2)
    publish(conn, 3, id=twin)
    duplicates = 0
    while moved := sequence(conn, batch=batch):
        duplicates += sum(one.duplicates for one in moved)
    publish(conn, 4, id=twin)
    duplicates += sum(one.duplicates for one in sequence(conn))
    assert (numbers(conn), duplicates) == ([1, 2], 2)


def test_same_event_id_in_another_topic_is_another_event(conn: Connection) -> None:
    topic(conn, "a"), topic(conn, "b")
    twin = uuid4()
    publish(conn, 1, topic="a", id=twin)
    publish(conn, 2, topic="b", id=twin)
    drain(conn)
    assert (numbers(conn, "a"), numbers(conn, "b")) == ([1], [2])


def test_time_of_the_log_never_goes_back(conn: Connection) -> None:
    topic(conn)
    publish(conn, 1)
    drain(conn)
    shift_clock(conn, "-1 hour")
    publish(conn, 2)
    drain(conn)
    first, second_event = read_log(conn, "orders")
    assert first.appended_at == second_event.appended_at
    assert second_event.emitted_at < first.emitted_at


def test_publisher_notifies_only_a_sleeping_sequencer(conn: Connection, second: Connection) -> None:
    topic(conn)
    second.execute("listen headrace_outbox")
    publish(conn, 1)
    assert notifications(second, conn) == 1
    drain(conn)
    publish(conn, 2)
    assert notifications(second, conn) == 0
    drain(conn)
    assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("sleep",)
    publish(conn, 3)
    assert notifications(second, conn) == 1


def test_sequencer_that_rests_leaves_its_topics_asleep(conn: Connection, second: Connection) -> None:
    """Then every publisher notifies, also of a topic that was awake, and nodes find what is behind the newest event."""
    topic(conn)
    second.execute("listen headrace_outbox")
    publish(conn, 1)
    drain(conn)
    publish(conn, 2)
    assert notifications(second, conn) == 1, "the topic is awake after the first event"
    for n in (3, 4):
        conn.execute("select headrace.sequence(p_rests => true)")
        publish(conn, n)
        assert notifications(second, conn) == 1
    assert conn.execute("select asleep, asleep_head from headrace_internal.topic").fetchall() == [(True, 3)]
    drain(conn)
    assert numbers(conn) == [1, 2, 3, 4]


def test_publisher_notifies_unless_an_event_of_its_topic_has_waited_for_long(conn: Connection, second: Connection) -> None:
    """Without a sequencer topics stay asleep, and some notifications of each are enough."""
    topic(conn)
    topic(conn, "bills")
    second.execute("listen headrace_outbox")
    for number in range(20):
        publish(conn, number)
    assert notifications(second, conn) == 11
    publish(conn, 1, topic="bills")
    assert notifications(second, conn) == 1
    with conn.transaction(force_rollback=True):
        publish(conn, 2, topic="bills")
    assert notifications(second, conn) == 0


def test_event_of_a_rolled_back_savepoint_keeps_nobody_from_notifying(conn: Connection, second: Connection) -> None:
    topic(conn)
    second.execute("listen headrace_outbox")
    with conn.transaction():
        with conn.transaction(force_rollback=True):
            publish(conn, 1)
        publish(conn, 2)
    assert notifications(second, conn) == 1


def test_sequencer_keeps_watch_while_a_publisher_is_open(conn: Connection, second: Connection) -> None:
    """It read "awake" and will not notify, so the sequencer must not sleep."""
    topic(conn)
    fill(conn, 1)
    with second.transaction():
        publish(second, 2)
        assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("watch",)
    drain(conn)
    assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("sleep",)


def test_unsequenced_events_keep_a_topic_awake(conn: Connection) -> None:
    topic(conn)
    fill(conn, 1)
    publish(conn, 2)
    assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("busy",)


def outbox_bytes(conn: Connection) -> int:
    row = conn.execute(
        "select sum(pg_total_relation_size(inhrelid)) from pg_inherits where inhparent = 'headrace_internal.outbox'::regclass"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_outbox_does_not_bloat_under_a_held_snapshot(conn: Connection, second: Connection) -> None:
    topic(conn)
    empty = outbox_bytes(conn)
    second.execute("begin isolation level repeatable read")
    second.execute("select count(*) from headrace.log")
    for _ in range(3):
        fill(conn, 3000)
    assert outbox_bytes(conn) > empty + 500_000
    assert trim_outbox(conn) > 0
    assert outbox_bytes(conn) == empty
    second.execute("rollback")


def test_trim_leaves_a_slot_with_an_open_publisher_alone(conn: Connection, second: Connection) -> None:
    topic(conn)
    with second.transaction():
        publish(second, 1)
        fill(conn, 10)
        # The others may be in the slot of the next four seconds, which is trimmed.
        trim_outbox(conn)
        assert second.execute("select count(*) from headrace.outbox").fetchone() == (1,)
    drain(conn)
    assert numbers(conn)[-1] == 1


def test_trim_leaves_a_slot_with_waiting_events_alone(conn: Connection) -> None:
    topic(conn)
    publish(conn, 1)
    assert trim_outbox(conn) == 0
    assert drain(conn) == 1


def test_clock_that_goes_back_before_the_topic_loses_no_event(conn: Connection) -> None:
    """Before the topic's beginning there is no time partition: its log's time begins there."""
    topic(conn)
    shift_clock(conn, "-40 days")
    publish(conn, 1)
    assert drain(conn) == 1
    shift_clock(conn, "")
    assert numbers(conn) == [1]


def publish_to_topics(conn: Connection, **counts: int) -> None:
    """Each namespace publishes one event to each of its topics, whose number is given."""
    for namespace, topics in counts.items():
        create_namespace(conn, namespace)
        for number in range(topics):
            create_topic(conn, f"t{number}", namespace=namespace)
    conn.execute("select headrace.publish(topic, 'placed', '1', p_namespace => namespace) from headrace_internal.topic")


def sequence_counts(conn: Connection) -> dict[str, int]:
    """One step: of how many topics of each namespace it moved events."""
    topic_ids = [topic.topic_id for topic in sequence(conn)]
    statement = "select namespace, count(*) from headrace_internal.topic where topic_id = any (%s) group by 1"
    return dict(conn.execute(statement, (topic_ids,)).fetchall())


@pytest.mark.lane("pg18")
def test_namespace_with_one_waiting_topic_is_served_in_each_step(conn: Connection) -> None:
    others = {f"b{number}": 1 for number in range(25)}
    publish_to_topics(conn, a=130, **others)
    counts = sequence_counts(conn)
    assert 1 <= counts.pop("a") <= 75
    assert counts == others


def test_slow_step_ends_after_one_topic_of_each_namespace(conn: Connection) -> None:
    publish_to_topics(conn, a=12, b=1)
    conn.execute("create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.21); return new; end'")
    conn.execute("create trigger slow before insert on headrace_internal.log for each row execute function slow()")
    assert sequence_counts(conn) == {"a": 1, "b": 1}


def test_slow_step_ends_after_one_topic_of_each_namespace_of_few(conn: Connection) -> None:
    publish_to_topics(conn, a=3, b=1)
    conn.execute("create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.21); return new; end'")
    conn.execute("create trigger slow before insert on headrace_internal.log for each row execute function slow()")
    assert sequence_counts(conn) == {"a": 1, "b": 1}


def test_turn_of_large_events_ends_after_8_mb(conn: Connection) -> None:
    """A turn of 5 000 events of 1 MB would take a minute, in front of all other namespaces."""
    topic(conn)
    # Random letters, because pglz shrinks anything else.
    conn.execute(
        """select headrace.publish('orders', 'placed', to_jsonb(t.text))
        from (select string_agg(md5(random()::text), '') as text from generate_series(1, 30000)) t, generate_series(1, 30)"""
    )
    steps = []
    while moved := sequence(conn):
        steps.append(moved[0].events)
    assert sum(steps) == 30 and 3 <= len(steps) <= 6 and max(steps) < 20, steps
