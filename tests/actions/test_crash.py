"""No action is lost and effects through the transaction happen once, whatever is killed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.actions import list_dead_letters
from headrace.db import Connection, Server, Target, connect, migrate
from tests.builders import start_python, wait_until
from tests.conftest import temporary_folder

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(240)]


class Nodes:
    """The processes of one test; those that still run are killed at its end."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._started: list[subprocess.Popen[str]] = []

    def start(self, name: str, *, lease_s: float = 1.0) -> subprocess.Popen[str]:
        self._started.append(start_python("tests.actions.processes", self._target.dsn, name, str(lease_s)))
        return self._started[-1]

    def end(self) -> None:
        for process in self._started:
            # A process stopped by a signal must continue before it can die.
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@contextmanager
def nodes(target: Target) -> Iterator[Nodes]:
    running = Nodes(target)
    try:
        yield running
    finally:
        running.end()


def prepare(conn: Connection) -> None:
    conn.execute("create table effect (n int, node text); create table seen (node text); create table go (node text)")


@pytest.fixture
def tables(conn: Connection) -> Connection:
    """Tables for effects, without any constraint."""
    prepare(conn)
    return conn


def send(conn: Connection, action: str, first: int, last: int) -> None:
    conn.execute(
        """select headrace.send_actions('default', array_agg(
               jsonb_build_object('id', headrace.uuid_v7(), 'action', %s::text, 'payload', n, 'priority', 0) order by n))
           from generate_series(%s::int, %s::int) n""",
        (action, first, last),
    )


def count(conn: Connection, table: str) -> int:
    (rows,) = conn.execute(f"select count(*) from {table}").fetchone() or (0,)
    return int(rows)


def check_each_once(conn: Connection, last: int) -> None:
    wait_until(lambda: count(conn, "pgmq.q_hr_default") == 0, "an empty queue")
    assert [row[0] for row in conn.execute("select n from effect order by n").fetchall()] == list(range(1, last + 1))
    assert list_dead_letters(conn) == []
    assert count(conn, "headrace.action_result where outcome = 'done'") == last


def test_killed_nodes_lose_and_repeat_no_action(tables: Connection, database: Target) -> None:
    """Two nodes share the work; one after the other is killed at a random moment, in the middle of handling."""
    random.seed(11)
    send(tables, "slow", 1, 150)
    send(tables, "count", 151, 3000)
    with nodes(database) as running:
        alive = [running.start("n0"), running.start("n1")]
        for kill in range(4):
            target = count(tables, "effect") + random.randint(5, 40)
            wait_until(lambda target=target: count(tables, "effect") >= min(target, 3000), "progress after a kill")  # type: ignore[misc]
            alive.pop(0).kill()
            alive.append(running.start(f"n{kill + 2}"))
        check_each_once(tables, 3000)


def test_action_of_a_node_killed_during_its_handler_is_handled_by_another_node(tables: Connection, database: Target) -> None:
    send(tables, "hang", 1, 1)
    with nodes(database) as running:
        first = running.start("first")
        wait_until(lambda: count(tables, "seen") == 1, "the start of the handler")
        first.kill()
        first.wait()
        tables.execute("insert into go values ('second')")
        running.start("second")
        check_each_once(tables, 1)
        assert tables.execute("select node from effect").fetchall() == [("second",)]
        assert tables.execute("select attempts from headrace.action_result").fetchall() == [(2,)]


def test_late_ack_of_a_frozen_node_is_rejected(tables: Connection, database: Target) -> None:
    """The first node freezes during its handler, so nobody extends its lease; when it continues, it is too late."""
    send(tables, "hang", 1, 1)
    with nodes(database) as running:
        first = running.start("first")
        wait_until(lambda: count(tables, "seen where node = 'first'") == 1, "the start of the first handler")
        first.send_signal(signal.SIGSTOP)
        tables.execute("insert into go values ('second')")
        running.start("second")
        wait_until(lambda: count(tables, "effect") == 1, "the second node's effect")
        tables.execute("insert into go values ('first')")
        first.send_signal(signal.SIGCONT)
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=20) == 0
        check_each_once(tables, 1)
        assert tables.execute("select node from effect").fetchall() == [("second",)]


def test_long_handler_keeps_its_lease(tables: Connection, database: Target) -> None:
    send(tables, "hang", 1, 1)
    with nodes(database) as running:
        running.start("first", lease_s=1.0)
        running.start("second", lease_s=1.0)
        wait_until(lambda: count(tables, "seen") == 1, "the start of the handler")
        (began,) = tables.execute("select vt from pgmq.q_hr_default").fetchone() or (None,)
        wait_until(
            lambda: (
                tables.execute("select vt > %s::timestamptz + interval '2 s' from pgmq.q_hr_default", (began,)).fetchone()
                == (True,)
            ),
            "a lease two seconds longer",
        )
        tables.execute("insert into go values ('first'), ('second')")
        check_each_once(tables, 1)
        assert count(tables, "seen") == 1


def test_stopped_node_finishes_its_batch_and_deregisters(tables: Connection, database: Target) -> None:
    send(tables, "hang", 1, 1)
    with nodes(database) as running:
        node = running.start("n1")
        wait_until(lambda: count(tables, "seen") == 1, "the start of the handler")
        node.send_signal(signal.SIGTERM)
        tables.execute("insert into go values ('n1')")
        assert node.wait(timeout=20) == 0
        check_each_once(tables, 1)
        assert tables.execute("select state from headrace.node_state").fetchall() == [("stopped",)]


def test_two_nodes_share_the_work(tables: Connection, database: Target) -> None:
    with nodes(database) as running:
        running.start("n1")
        running.start("n2")
        wait_until(lambda: count(tables, "headrace.node_state where state = 'alive'") == 2, "both nodes")
        # More than the workers of one node claim at once.
        send(tables, "slow", 1, 400)
        check_each_once(tables, 400)
    assert {row[0] for row in tables.execute("select distinct node from effect").fetchall()} == {"n1", "n2"}


def test_nodes_survive_a_killed_postgresql_and_lose_nothing() -> None:
    folder = temporary_folder()
    server = Server(folder)
    server.start()
    try:
        with connect(Target("own", server.dsn())) as conn:
            migrate(conn)
            prepare(conn)
            send(conn, "slow", 1, 100)
            send(conn, "count", 101, 2000)
        with nodes(Target("own", server.dsn())) as running:
            running.start("n1")
            running.start("n2")
            for _ in range(2):
                with connect(Target("own", server.dsn())) as conn:
                    seen = count(conn, "effect")
                    wait_until(lambda conn=conn, seen=seen: count(conn, "effect") > min(seen + 10, 1990), "progress")  # type: ignore[misc]
                server.kill()
                server.start()
            with connect(Target("own", server.dsn())) as conn:
                send(conn, "count", 2001, 2100)
                check_each_once(conn, 2100)
    finally:
        server.stop()
        shutil.rmtree(folder)
