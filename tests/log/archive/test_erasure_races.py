"""An erasure while others work on the same events: what they write of them a moment later is erased, too, or never written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from headrace.actions import send_action
from headrace.db import Connection, Target
from headrace.log.topics import create_topic
from tests.builders import drain, wait_until
from tests.log.archive.test_erasure import SECRET, publish, tables_with

ERASE = "select headrace.erase_key('orders', 'ada-1')"
REDACT = "select headrace.erase_key('orders', 'ada-1', array['email', 'customer.name'])"
ERASE_ACTIONS = "select headrace.erase_key('orders', 'ada-1', p_actions => true)"
REDACT_ACTIONS = "select headrace.erase_key('orders', 'ada-1', array['email', 'customer.name'], p_actions => true)"
CLAIM = "select headrace.claim_events(%s, 100, 1, 0::float8, 1)"
FAIL = "select headrace.fail(%s, 0, 0, %s, %s, %s)"
CONSUMER = "select headrace.create_consumer('orders', 'mailer', p_attempts_max => 1, p_when_exhausted => 'dead_letter')"
QUOTE = f"ValueError: cannot write to {SECRET}"


@pytest.fixture
def consumer_id(conn: Connection) -> int:
    """A consumer with one attempt, and two events of Ada's."""
    create_topic(conn, "orders")
    [(consumer_id,)] = conn.execute(CONSUMER).fetchall()
    for _ in range(2):
        publish(conn, "ada")
    drain(conn)
    # Headers stay when fields are redacted, and are not what these tests are about.
    conn.execute("update headrace_internal.log set headers = '{}'")
    return int(consumer_id)


@contextmanager
def transaction(database: Target) -> Iterator[Connection]:
    """A transaction of another session, committed by the end of the block."""
    with psycopg.connect(database.dsn) as session:
        yield session


@contextmanager
def waiting_statement(conn: Connection, database: Target, statement: str, waiting: int = 1) -> Iterator[None]:
    """A statement that waits for a lock during the block, as one of some sessions, and is done at its end."""
    errors: list[Exception] = []

    def execute() -> None:
        try:
            with psycopg.connect(database.dsn, autocommit=True) as session:
                session.execute(statement)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    waits = f"select count(*) >= {waiting} from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    wait_until(lambda: not thread.is_alive() or conn.execute(waits).fetchone() == (True,), "the statement waits, or is done")
    try:
        yield
    finally:
        thread.join(30)
    assert errors == []


@pytest.mark.parametrize("erasure", [ERASE, REDACT])
def test_dead_letter_that_is_being_written_is_erased(conn: Connection, database: Target, consumer_id: int, erasure: str) -> None:
    with transaction(database) as worker:
        worker.execute(CLAIM, (consumer_id,))
        assert worker.execute(FAIL, (consumer_id, 1, 1, QUOTE)).fetchone() == ("dead_letter",)
        with waiting_statement(conn, database, erasure):
            worker.commit()
    assert tables_with(conn, SECRET) == []


@pytest.mark.parametrize("erasure", [ERASE, REDACT])
def test_failure_waits_for_an_erasure_that_is_under_way(
    conn: Connection, database: Target, consumer_id: int, erasure: str
) -> None:
    with transaction(database) as eraser:
        eraser.execute(erasure)
        with pytest.raises(psycopg.errors.LockNotAvailable), conn.transaction():
            conn.execute(FAIL, (consumer_id, 1, 1, QUOTE))
    conn.execute(FAIL, (consumer_id, 1, 1, QUOTE))
    assert tables_with(conn, SECRET) == []


@pytest.mark.parametrize("erasure", [ERASE, REDACT])
@pytest.mark.parametrize("events", [1, 2])
def test_handler_that_had_the_events_leaves_no_text_of_them(
    conn: Connection, database: Target, consumer_id: int, erasure: str, events: int
) -> None:
    with transaction(database) as worker:
        worker.execute(CLAIM, (consumer_id,))
        conn.execute(erasure)
        [(outcome,)] = worker.execute(FAIL, (consumer_id, events, events, QUOTE)).fetchall()
        gone = "discarded" if erasure == ERASE else "dead_letter"
        assert outcome == ("single" if events == 2 else gone)
    assert tables_with(conn, SECRET) == []
    assert conn.execute("select position from headrace.cursor").fetchone() == (0 if events == 2 else 1,)


def test_event_that_is_held_back_meanwhile_is_erased(conn: Connection, database: Target, consumer_id: int) -> None:
    conn.execute(FAIL, (consumer_id, 1, 1, "ValueError"))
    with transaction(database) as worker:
        worker.execute(CLAIM, (consumer_id,))
        with waiting_statement(conn, database, ERASE):
            worker.commit()
    assert tables_with(conn, SECRET) == []
    states = conn.execute("select state from headrace_internal.dead_letter order by position").fetchall()
    assert states == [("discarded",), ("discarded",)]


def test_erased_event_is_not_held_back(conn: Connection, consumer_id: int) -> None:
    conn.execute(FAIL, (consumer_id, 1, 1, "ValueError"))
    conn.execute(ERASE)
    # Another event of the key, which its publisher sends although the person is gone.
    conn.execute("update headrace_internal.dead_letter set state = 'dead'")
    conn.execute(CLAIM, (consumer_id,))
    assert conn.execute("select count(*) from headrace_internal.dead_letter").fetchone() == (1,)


@pytest.mark.parametrize("erasure", [ERASE_ACTIONS, REDACT_ACTIONS])
def test_action_that_is_redriven_meanwhile_is_erased(conn: Connection, database: Target, consumer_id: int, erasure: str) -> None:
    payload = {"email": SECRET, "customer": {"name": SECRET}}
    send_action(conn, "call", payload, key="ada-1")
    [(msg_id,)] = conn.execute("select msg_id from pgmq.q_hr_default").fetchall()
    conn.execute("select headrace.bury_actions(array[%s::bigint], 'failed', 'no')", (msg_id,))
    with transaction(database) as operator:
        assert operator.execute("select headrace.redrive_actions()").fetchone() == (1,)
        with waiting_statement(conn, database, erasure):
            operator.commit()
    assert tables_with(conn, SECRET) == []


def test_error_of_an_action_that_lost_its_fields_meanwhile_is_not_kept(conn: Connection, consumer_id: int) -> None:
    send_action(conn, "call", {"email": SECRET}, key="ada-1")
    [(msg_id,)] = conn.execute("update pgmq.q_hr_default set read_ct = 1 returning msg_id").fetchall()
    conn.execute(REDACT_ACTIONS)
    fail = "select headrace.fail_action(%s, %s, 3, 0, 1, %s, 'trace')"
    conn.execute(fail, (msg_id, 1, QUOTE))
    conn.execute("update pgmq.q_hr_default set read_ct = 2")
    conn.execute(fail, (msg_id, 2, "ValueError"))
    errors = conn.execute("select error, traceback from headrace.attempt order by attempt").fetchall()
    assert errors == [("(erased)", None), ("ValueError", "trace")] and tables_with(conn, SECRET) == []


def test_erasure_and_move_to_another_engine_wait_for_each_other_in_turn(
    conn: Connection, database: Target, consumer_id: int
) -> None:
    """Both need the topic's row and the cursors of its rules, which a batch holds."""
    conn.execute("select headrace_internal.create_internal_consumer(topic_id, 'headrace.rules') from headrace.topic")
    lock = "select from headrace_internal.cursor where partition = -1 for no key update"
    with transaction(database) as batch:
        batch.execute(lock)
        with (
            waiting_statement(conn, database, "select headrace.set_engine('orders', 'spark')"),
            waiting_statement(conn, database, ERASE, waiting=2),
        ):
            batch.commit()
    assert conn.execute("select engine from headrace.topic").fetchone() == ("spark",)
    assert tables_with(conn, SECRET) == []


def test_erasure_and_change_of_a_schema_wait_for_each_other_in_turn(conn: Connection, database: Target, consumer_id: int) -> None:
    """Both need the namespace's row and the topic's."""
    check = """'{"check": "true", "rules": [], "is_complete": true}'"""
    change = f"select headrace.set_event_schema('placed', '{{}}', p_validation => 'warn', p_check => {check})"
    with transaction(database) as sequencer:
        sequencer.execute("select from headrace_internal.topic for no key update")
        with waiting_statement(conn, database, ERASE), waiting_statement(conn, database, change, waiting=2):
            sequencer.commit()
    assert conn.execute("select checks_payloads from headrace_internal.topic").fetchone() == (True,)
    assert tables_with(conn, SECRET) == []


def test_change_of_a_schema_locks_the_topics_in_the_order_of_an_erasure(conn: Connection, database: Target) -> None:
    # Neither by name nor by place are they in the order of their ids: new versions of the rows come last in the table.
    topics = [create_topic(conn, name) for name in ("c", "b", "a")]
    for topic_id in reversed(topics):
        conn.execute("update headrace_internal.topic set created_at = created_at where topic_id = %s", (topic_id,))
    check = """'{"check": "true", "rules": [], "is_complete": true}'"""
    change = f"select headrace.set_event_schema('placed', '{{}}', p_validation => 'warn', p_check => {check})"
    lock = "select from headrace_internal.topic where topic_id = %s for no key update"
    with transaction(database) as erasure:
        erasure.execute(lock, (topics[0],))
        with waiting_statement(conn, database, change):
            for topic_id in topics[1:]:
                erasure.execute(lock, (topic_id,))
            erasure.commit()
