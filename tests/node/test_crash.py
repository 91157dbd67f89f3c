"""Acknowledged events are in the log once, and effects through the transaction happen once, whatever is killed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from headrace.actions import list_dead_letters
from headrace.consume import consumer_lag
from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log.topics import read_log
from tests.builders import fill, start_python, topic, wait_until
from tests.conftest import temporary_folder

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(240)]


@dataclass
class Processes:
    """The processes of one test; those that still run are killed at its end."""

    target: Target
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, role: str, name: str) -> subprocess.Popen[str]:
        process = start_python("tests.node.processes", role, self.target.dsn, name, stdout=subprocess.PIPE)
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


@contextmanager
def processes(target: Target) -> Iterator[Processes]:
    running = Processes(target)
    try:
        yield running
    finally:
        running.end()


def acknowledged(publisher: subprocess.Popen[str]) -> list[int]:
    """Kills a publisher and returns the numbers it saw committed."""
    publisher.kill()
    out, _ = publisher.communicate()
    return [int(line) for line in out.splitlines()]


def count(conn: Connection, table: str) -> int:
    row = conn.execute(f"select count(*) from {table}").fetchone()
    assert row is not None
    return int(row[0])


def settle(conn: Connection) -> None:
    """Waits until everything published is handled."""
    wait_until(lambda: count(conn, "headrace.outbox") == 0, "an empty outbox")
    wait_until(lambda: count(conn, "effect") >= count(conn, "headrace.log"), "handling of every event")


def check(conn: Connection, sent: dict[str, list[int]]) -> None:
    """The laws: positions without gaps; acknowledged ⊆ log; each producer's order; effects exactly once."""
    events = read_log(conn, "orders", limit=10_000_000)
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    assert len({event.id for event in events}) == len(events)
    for producer, numbers in sent.items():
        logged = [event.payload for event in events if event.key == producer]
        assert logged[: len(numbers)] == numbers, f"{producer}: acknowledged events are missing or out of order"
        assert len(logged) - len(numbers) <= 1, "at most the event in flight may be there unacknowledged"
    effects = conn.execute("select position from effect order by position").fetchall()
    assert [row[0] for row in effects] == [event.position for event in events]


@pytest.fixture
def orders(conn: Connection) -> Connection:
    """A topic with four partitions, and a table for the handlers' effects, without any constraint."""
    topic(conn, partitions=4)
    conn.execute("create table effect (producer text, n int, position bigint, node text)")
    return conn


def test_killed_publisher_loses_no_acknowledged_event(orders: Connection, database: Target) -> None:
    with processes(database) as running:
        running.start("node", "n1")
        sent = {}
        for name in ("a", "b", "c"):
            publisher = running.start("publisher", name)
            wait_until(
                lambda name=name: any(event.key == name for event in read_log(orders, "orders", limit=100_000)), "an event"
            )  # type: ignore[misc]
            sent[name] = acknowledged(publisher)
        settle(orders)
        check(orders, sent)


def test_killed_nodes_lose_and_repeat_no_event(orders: Connection, database: Target) -> None:
    """Two nodes, each a sequencer and a consumer; one after the other is killed at a random moment and replaced."""
    random.seed(7)
    with processes(database) as running:
        nodes = [running.start("node", f"n{number}") for number in range(2)]
        publishers = {name: running.start("publisher", name) for name in ("a", "b")}
        for kill in range(4):
            target = count(orders, "effect") + random.randint(20, 120)
            wait_until(lambda target=target: count(orders, "effect") >= target, "progress after a kill")  # type: ignore[misc]
            victim = nodes.pop(0)
            victim.kill()
            nodes.append(running.start("node", f"n{kill + 2}"))
        sent = {name: acknowledged(publisher) for name, publisher in publishers.items()}
        settle(orders)
        check(orders, sent)


def test_stopped_node_finishes_its_batch_and_ends(orders: Connection, database: Target) -> None:
    with processes(database) as running:
        node = running.start("node", "n1")
        publisher = running.start("publisher", "a")
        wait_until(lambda: count(orders, "effect") > 50, "some handling")
        node.send_signal(signal.SIGTERM)
        assert node.wait(timeout=20) == 0
        sent = {"a": acknowledged(publisher)}
        running.start("node", "n2")
        settle(orders)
        check(orders, sent)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server with PostgreSQL's own durable settings, to be killed."""
    folder = temporary_folder()
    server = Server(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


def test_publishers_and_nodes_survive_a_killed_postgresql_and_lose_nothing(own_server: Server) -> None:
    target = Target("own", own_server.dsn())
    with connect(target) as conn:
        migrate(conn)
        topic(conn, partitions=4)
        conn.execute("create table effect (producer text, n int, position bigint, node text)")
    with processes(target) as running:
        running.start("node", "n1")
        running.start("node", "n2")
        publishers = {name: running.start("publisher", name) for name in ("a", "b")}
        for _ in range(2):
            with connect(Target("own", own_server.dsn())) as conn:
                seen = count(conn, "effect")
                wait_until(lambda conn=conn, seen=seen: count(conn, "effect") > seen + 100, "progress after the restart")  # type: ignore[misc]
            own_server.kill()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(own_server.dsn(), connect_timeout=2)
            own_server.start()
        with connect(Target("own", own_server.dsn())) as conn:
            seen = count(conn, "effect")
            wait_until(lambda: count(conn, "effect") > seen + 100, "progress after the last restart")
            sent = {name: acknowledged(publisher) for name, publisher in publishers.items()}
            settle(conn)
            check(conn, sent)


@pytest.mark.parametrize("open_s", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_open_transaction_does_not_stop_other_events(
    orders: Connection, database: Target, second: Connection, open_s: int
) -> None:
    """It has published and holds a snapshot: other events are handled, the outbox is trimmed, and its event follows on commit."""
    with processes(database) as running:
        running.start("node", "n1")
        publisher = running.start("publisher", "a")
        wait_until(lambda: count(orders, "effect") > 20, "some handling")
        with second.transaction():
            second.execute("set transaction isolation level repeatable read")
            second.execute("select headrace.publish('orders', 'placed', '-1', p_key => 'slow')")
            until = time.monotonic() + open_s
            while time.monotonic() < until:
                seen = count(orders, "effect")
                wait_until(lambda seen=seen: count(orders, "effect") > seen, "handling beside the open transaction")  # type: ignore[misc]
        wait_until(lambda: any(event.key == "slow" for event in read_log(orders, "orders", limit=10_000_000)), "the late event")
        sent = {"a": acknowledged(publisher), "slow": [-1]}
        settle(orders)
        check(orders, sent)


def poison(conn: Connection) -> None:
    """30 events for a consumer that faults at number 21, and 30 for one that does not."""
    conn.execute("create table effect (n int); create table calm (n int)")
    for name in ("orders", "calm"):
        topic(conn, name)
        fill(conn, 30, topic=name)


def numbers(conn: Connection, table: str) -> list[object]:
    return [n for (n,) in conn.execute(f"select n from {table} order by n").fetchall()]


def test_event_that_kills_its_process_becomes_a_dead_letter_and_harms_no_other(conn: Connection, database: Target) -> None:
    poison(conn)
    with processes(database) as running:
        # Once with others, and twice alone: the attempts of its policy.
        for crash in range(3):
            assert running.start("faulty", "SIGKILL").wait(60) == -signal.SIGKILL
            # The first batch ends where its time does, on a slow machine before the event that kills.
            handled = numbers(conn, "effect")
            assert handled == [*range(1, len(handled) + 1)] and len(handled) <= 20 and (crash == 0 or len(handled) == 20)
        running.start("faulty", "SIGKILL")
        wait_until(lambda: count(conn, "effect") == 29 and count(conn, "calm") == 30, "handling of all other events")
        assert running.started[-1].poll() is None
    [letter] = list_dead_letters(conn)
    assert (letter.attempts, letter.payload) == (2, 21) and "SessionLost" in str(letter.error)
    assert numbers(conn, "effect") == [n for n in range(1, 31) if n != 21]
    conn.execute("select headrace.redrive('orders', 'faulty')")
    with processes(database) as running:
        assert running.start("faulty", "SIGKILL").wait(60) == -signal.SIGKILL
        running.start("faulty", "SIGKILL")
        wait_until(lambda: [letter.attempts for letter in list_dead_letters(conn)] == [3], "the redrive counts as failed")


def test_hung_process_loses_its_partitions_after_the_limit_of_its_session(conn: Connection, database: Target) -> None:
    poison(conn)
    with processes(database) as running:
        hung = running.start("faulty", "SIGSTOP")
        wait_until(lambda: Path(f"/proc/{hung.pid}/stat").read_text().split()[2] == "T", "the process hangs")
        assert [lag.session_limit_s for lag in consumer_lag(conn, consumer="faulty")] == [5.5]
        running.start("faulty", "SIGCONT")  # Does nothing to a process that runs.
        wait_until(lambda: count(conn, "effect") == 30, "another node takes over")
    assert numbers(conn, "effect") == [*range(1, 31)]
