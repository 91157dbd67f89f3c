"""What ten open consoles cost a node: the rate at which it drains a log, with them and without them, in turns; and the CPU that the
console and its sessions take meanwhile, which is the most that they can take from a node that uses all cores. The rate of a drain
changes with the disk and the host by more than what is measured here; the CPU hardly does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from statistics import median
from urllib.parse import urlsplit

from psycopg.conninfo import make_conninfo

from bench.child import child
from bench.lab import Lab, cpu_s, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.db import Connection, Target, connect
from headrace.web.console.routes import SILENCE_MAX_S

CONSOLES = (
    "/",
    "/topics",
    "/consumers",
    "/events?topic=bench",
    "/actions",
    "/dead-letters",
    "/nodes",
    "/rules",
    "/",
    "/events?topic=bench",
)
"""What ten people look at: the pages that change most."""
EVENTS = 400_000
OPENING_S = 4.0
APPLICATION_NAME = "bench console"
SHARE_MAX = 0.05


def run(lab: Lab, *, quick: bool) -> None:
    facts = surroundings(lab)
    watched, alone = measure_open_consoles(lab, events=150_000 if quick else EVENTS, rounds=1 if quick else 11)
    cores = [each.notes["console_cores"] for each in watched.rounds]
    share = Figure(
        "CPU of ten open consoles : all cores",
        median(cores) / int(str(facts["cpus"])),
        SHARE_MAX,
        at_most=True,
        detail=f"{median(cores):.3f} cores, rounds {min(cores):.3f}–{max(cores):.3f}",
    )
    figures = [ratio("rate with ten open consoles : with none", watched, alone, 1 - SHARE_MAX), share]
    report("open_consoles", facts, figures, {"open": [watched, alone]})


def measure_open_consoles(lab: Lab, *, events: int, rounds: int) -> tuple[Side, Side]:
    """A node that drains a log, with ten open consoles and without."""
    watched, alone = Side("ten open consoles", []), Side("none", [])
    with (
        lab.database("watched", partitions=4) as target,
        child("bench.console_server", make_conninfo(target.dsn, application_name=APPLICATION_NAME)) as console,
    ):
        address = console.ask()["address"]
        with connect(target) as conn:
            conn.execute("select headrace.create_consumer('bench', 'batch')")
            conn.execute(
                """insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, payload, headers)
                   select n, headrace.clock(), headrace.clock(), headrace.topic_id('bench'), n %% 4, gen_random_uuid(), 'placed', '{"total": 1}', '{}'
                   from generate_series(1, %s) n""",
                (events,),
            )
            conn.execute("vacuum analyze")
        # The first drain reads from the disk what the others find in memory.
        _drain(lab, target, events, console.pid)
        for number in range(rounds):
            # Whoever is second finds the machine warmer, so both sides are first in turns.
            for is_watched in (False, True) if number % 2 else (True, False):
                with open_consoles(address) if is_watched else nullcontext():
                    (watched if is_watched else alone).rounds.append(_drain(lab, target, events, console.pid))
    return watched, alone


def _drain(lab: Lab, target: Target, events: int, console: int) -> Round:
    with connect(target) as conn:
        conn.execute("update headrace_internal.cursor set position = 0")
        settle(conn)
        with child("bench.node", target.dsn, "batch") as node:
            handled, started = node.ask()["handled"], time.monotonic()
            used_s, console_s = lab.cpu_s([node.pid]), _console_cpu_s(conn, console)
            while (now := node.ask()["handled"]) < events * 0.95:
                time.sleep(0.02)
            seconds = time.monotonic() - started
            used_s, console_s = lab.cpu_s([node.pid]) - used_s, _console_cpu_s(conn, console) - console_s
            return Round((now - handled) / seconds, 1e6 * used_s / (now - handled), {"console_cores": console_s / seconds})


def _console_cpu_s(conn: Connection, console: int) -> float:
    """CPU seconds so far of the console and its sessions, which it keeps."""
    sessions = conn.execute("select pid from pg_catalog.pg_stat_activity where application_name = %s", (APPLICATION_NAME,))
    return sum(map(cpu_s, [console, *(pid for (pid,) in sessions.fetchall())]))


@contextmanager
def open_consoles(address: str) -> Iterator[None]:
    """Ten streams, read as browsers do, after the first burst: what an open console costs, not what opening one costs."""
    place = urlsplit(address)
    connections = [HTTPConnection(str(place.hostname), place.port, timeout=2 * SILENCE_MAX_S) for _ in CONSOLES]
    threads = [
        threading.Thread(target=_read_stream, args=(connection, path), daemon=True)
        for connection, path in zip(connections, CONSOLES, strict=True)
    ]
    for thread in threads:
        thread.start()
    time.sleep(OPENING_S)
    assert all(thread.is_alive() for thread in threads), "a stream has ended"
    try:
        yield
        assert all(thread.is_alive() for thread in threads), "a stream has ended"
    finally:
        for connection in connections:
            connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _read_stream(connection: HTTPConnection, path: str) -> None:
    connection.request("GET", f"{path}{'&' if '?' in path else '?'}live=stream")
    stream = connection.getresponse()
    assert stream.status == 200, path
    while stream.readline():
        """What a browser would show."""
