"""What ten open consoles cost a node: the rate at which it drains a log, with them and without them, in turns."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from urllib.parse import urlsplit

from bench.child import child
from bench.console import serve_console
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.console.live import SILENCE_MAX_S
from headrace.db import Target, connect

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
EVENTS = 600_000
OPENING_S = 4.0


def run(lab: Lab, *, quick: bool) -> None:
    facts = surroundings(lab)
    figure, watched, alone = measure_open_consoles(lab, events=150_000 if quick else EVENTS, rounds=1 if quick else 5)
    report("open_consoles", facts, [figure], {"open": [watched, alone]})


def measure_open_consoles(lab: Lab, *, events: int, rounds: int) -> tuple[Figure, Side, Side]:
    """The rate of a node that drains a log, with ten open consoles and without."""
    watched, alone = Side("ten open consoles", []), Side("none", [])
    with lab.database("watched", partitions=4) as target, serve_console(target) as address:
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
        _drain(lab, target, events)
        for number in range(rounds):
            # Whoever is second finds the machine warmer, so both sides are first in turns.
            for is_watched in (False, True) if number % 2 else (True, False):
                with open_consoles(address) if is_watched else nullcontext():
                    (watched if is_watched else alone).rounds.append(_drain(lab, target, events))
    return ratio("rate with ten open consoles : with none", watched, alone, 0.95), watched, alone


def _drain(lab: Lab, target: Target, events: int) -> Round:
    with connect(target) as conn:
        conn.execute("update headrace_internal.cursor set position = 0")
        settle(conn)
    with child("bench.node", target.dsn, "batch") as node:
        handled, started = node.ask()["handled"], time.monotonic()
        cpu_s = lab.cpu_s([node.pid])
        while (now := node.ask()["handled"]) < events * 0.95:
            time.sleep(0.02)
        seconds = time.monotonic() - started
        return Round((now - handled) / seconds, 1e6 * (lab.cpu_s([node.pid]) - cpu_s) / (now - handled))


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
