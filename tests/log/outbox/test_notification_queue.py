"""The notification queue of the server, which every role may fill, stops neither publishers nor the sequencer."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log.topics import read_log
from headrace.observe.doctor import check_server
from headrace.observe.metrics import read_metrics
from tests.builders import drain, publish, topic
from tests.conftest import FAST, remove_server, temporary_folder

pytestmark = pytest.mark.lane("pg18")


def fill_queue(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as filler:
        for _ in range(10_000):
            try:
                filler.execute("select pg_notify('anything', repeat('x', 7900))")
            except psycopg.errors.ProgramLimitExceeded:
                return
    raise AssertionError("the queue is not full")


def usage(conn: Connection) -> float:
    (value,) = [sample.value for sample in read_metrics(conn) if sample.family.name == "headrace_notification_queue_usage"]
    return value


def test_full_notification_queue_fails_no_publisher_and_no_sequencer() -> None:
    # The smallest queue that PostgreSQL 17 and later allow: 512 kB.
    server = Server(temporary_folder(in_memory=True), settings=FAST | {"max_notify_queue_pages": "64"})
    server.start()
    try:
        with connect(Target("main", server.dsn())) as conn:
            migrate(conn)
            topic(conn)
            conn.execute("create role stranger login")
            stranger = make_conninfo(server.dsn(), user="stranger")
            with psycopg.connect(stranger, autocommit=True) as listener:
                listener.execute("listen anything")
                listener.execute("begin; select 1")
                fill_queue(stranger)
                publish(conn, 1)
                conn.execute("insert into headrace.rule (rule, topic, event_type, action) values ('r', 'orders', 'placed', 'A')")
                conn.execute("select headrace.send_action('A')")
                drain(conn)
                assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("poll",)
                assert [event.payload for event in read_log(conn, "orders")] == [1]
                assert usage(conn) > 0.5
                assert {check: level for check, level, *_ in check_server(conn)}["notifications"] == "warning"
            # What is read by all listeners is forgotten, and publishers notify again.
            assert usage(conn) < 0.5
            conn.execute("listen headrace_outbox")
            publish(conn, 2)
            assert [notice.channel for notice in conn.notifies(timeout=10, stop_after=1)] == ["headrace_outbox"]
    finally:
        remove_server(server)
