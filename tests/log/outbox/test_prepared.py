"""Publishing works in a transaction that is prepared (two-phase commit), also while the sequencer sleeps."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log.topics import sequence
from tests.builders import drain, notifications, numbers, publish, topic
from tests.conftest import FAST, temporary_folder


@pytest.fixture(scope="module")
def prepared_dsn() -> Iterator[str]:
    """A server that allows prepared transactions."""
    folder = temporary_folder(in_memory=True)
    server = Server(folder, settings=FAST | {"max_prepared_transactions": "5"})
    server.start()
    try:
        with connect(Target("prepared", server.dsn())) as conn:
            migrate(conn)
        yield server.dsn()
    finally:
        server.stop()
        shutil.rmtree(folder)


def test_publish_in_a_prepared_transaction_reaches_a_sleeping_topic(prepared_dsn: str) -> None:
    with connect(Target("prepared", prepared_dsn)) as conn, connect(Target("prepared", prepared_dsn)) as publisher:
        topic(conn)
        publisher.execute("begin")
        publish(publisher, 1)
        publisher.execute('select headrace.publish_many(\'[{"topic": "orders", "type": "placed", "payload": 2}]\')')
        publisher.execute("select headrace.send_action('mail', '{}')")
        publisher.execute("prepare transaction 'order 1'")
        assert sequence(conn) == []
        publisher.execute("commit prepared 'order 1'")
        assert drain(conn) == 2
        assert numbers(conn) == [1, 2]
        assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("poll",)


def test_setting_brings_the_notification_back(prepared_dsn: str) -> None:
    with connect(Target("prepared", prepared_dsn)) as conn, connect(Target("prepared", prepared_dsn)) as listener:
        topic(conn, "bills")
        listener.execute("listen headrace_outbox")
        publish(conn, 1, topic="bills")
        assert notifications(listener, conn) == 0
        drain(conn)
        conn.execute("update headrace_internal.topic set asleep = true")
        conn.execute("set headrace.notify = on")
        publish(conn, 2, topic="bills")
        assert notifications(listener, conn) == 1


def test_setting_switches_the_notification_off(conn: Connection, second: Connection) -> None:
    topic(conn)
    second.execute("listen headrace_outbox")
    conn.execute("set headrace.notify = off")
    publish(conn, 1)
    assert notifications(second, conn) == 0
    assert drain(conn) == 1
