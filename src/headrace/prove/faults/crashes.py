"""Faults of processes, of the server and of its sessions.

A session may die inside a function of the database: the function gets a failpoint before each of its statements when one is armed,
and its original text back afterwards. The functions that headrace installs have no line for it."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo

from headrace.db import Connection, Server, query
from headrace.prove.bugs import function_definition
from headrace.prove.environment import Environment, fault
from headrace.prove.evidence import NoEffect
from headrace.prove.faults.load import publish_poison

DOWN_S = (0.2, 1.5)
CLOCK_SHIFTS_S = (-3, 3, 5)
NODE_DEATH_TIMEOUT_S = 20.0
PIPELINE_TIMEOUT_S = 60.0
POISON_EVERY_S = 2.0
STATEMENT_HITS_MAX = {"trim-outbox": 3, "run-schedule": 4, "fail": 3}
"""Statements that a node executes only this often in the time; other ones 8 times and more."""


def _kill(environment: Environment, draw: random.Random, role: str) -> Iterator[str]:
    name = draw.choice(environment.processes.of_role(role))
    count = environment.processes.kill(name)
    yield name if count == 1 else f"{name}, {count} processes"
    environment.hold(draw.uniform(*DOWN_S))
    environment.processes.start(name)


kill_producer = fault("kill-producer", "kill -9 of a producer")(partial(_kill, role="producer"))
kill_node = fault("kill-node", "kill -9 of a node")(partial(_kill, role="node"))
kill_sink = fault("kill-sink", "kill -9 of the process that writes batches as Spark's driver does")(partial(_kill, role="sink"))


@fault("kill-spark", "kill -9 of a pipeline's Spark driver, its JVM and their workers", spark=True)
def kill_spark(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Kills the driver, its JVM and their workers at once: none is left to finish a batch. Waits until a cursor has moved,
    so that the kill hits a pipeline at work and not one that starts."""
    parameters = {"pid": str(environment.processes.pid(draw.choice(environment.processes.of_role("pipeline"))))}
    with environment.connect() as conn:
        until = time.monotonic() + PIPELINE_TIMEOUT_S
        first = None
        while time.monotonic() < until:
            row = conn.execute(query("prove/pipeline_position"), parameters).fetchone()
            first = first or row
            if row != first:
                break
            time.sleep(0.05)
    time.sleep(draw.uniform(0, 0.6))
    yield from _kill(environment, draw, "pipeline")


@fault("stop-node", "SIGSTOP of a node for longer than a lease")
def stop_node(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Stops a node for longer than a lease: when it continues, it does not know that others hold its actions now."""
    name = draw.choice(environment.processes.of_role("node"))
    environment.processes.signal(name, signal.SIGSTOP)
    try:
        yield name
        time.sleep(environment.options.lease_s)
        environment.hold(draw.uniform(1, 3))
    finally:
        environment.processes.signal(name, signal.SIGCONT)


@fault("clock", "another time in one node's sessions")
def shift_clock(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Gives one node's sessions another time."""
    name, shift_s = draw.choice(environment.processes.of_role("node")), draw.choice(CLOCK_SHIFTS_S)
    dsn = make_conninfo(environment.proxy_dsn, options=f"-c headrace.clock_shift={shift_s}s")
    environment.processes.kill(name)
    environment.processes.start(name, config=msgspec.structs.replace(environment.processes.config(name), dsn=dsn))
    try:
        yield f"{name} {shift_s:+} s"
        environment.hold(draw.uniform(3, 6))
    finally:
        environment.processes.kill(name)
        environment.processes.start(name)


@fault("failpoint", "a node that dies at a named statement, at its n-th execution")
def failpoint(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Lets a node die before or after a statement of its loops, at the n-th execution."""
    processes = environment.processes
    name, point = draw.choice(processes.of_role("node")), environment.next_failpoint(draw)
    statement = point.partition(":")[2]
    hit = draw.randint(1, STATEMENT_HITS_MAX.get(statement, 8))
    processes.kill(name)
    processes.start(name, config=msgspec.structs.replace(processes.config(name), failpoint=point, hit=hit))
    try:
        needs_poison = statement == "fail"
        wait_for(environment, draw, lambda: not processes.is_alive(name), NODE_DEATH_TIMEOUT_S, needs_poison=needs_poison)
        died = processes.exit_code(name) == -signal.SIGKILL
    finally:
        processes.kill(name)
        processes.start(name)
    detail = f"{name} {point} hit {hit}"
    yield f"{detail}, died there" if died else NoEffect(f"{detail}, did not reach it in {NODE_DEATH_TIMEOUT_S:.0f} s")


def wait_for(
    environment: Environment, draw: random.Random, condition: Callable[[], bool], timeout_s: float, *, needs_poison: bool
) -> None:
    """Waits until the condition is true or the time is over; publishes poison where only that leads to the condition."""
    until = poison_at = time.monotonic()
    until += timeout_s
    while not condition() and time.monotonic() < until:
        if needs_poison and time.monotonic() >= poison_at:
            publish_poison(environment, draw)
            poison_at += POISON_EVERY_S
        time.sleep(0.1)


FUNCTIONS = (
    "sequence_step",
    "sequence_topic",
    "run_pass",
    "claim_events",
    "claim_at",
    "fail",
    "react",
    "react_to_events",
    "fire",
    "correlate",
    "step_simple",
    "deliver_correlations",
    "send_actions",
    "ack_actions",
    "fail_action",
    "bury_actions",
    "run_schedule",
    "publish",
    "commit_spark_batch",
)
_STATEMENT_END = re.compile(r"(;|\bbegin|\bthen|\bloop|\belse)\s*(--.*)?$", re.IGNORECASE)
_NOT_A_STATEMENT = re.compile(r"^\s*(end|else|elsif|exception|when|--|\$|$)", re.IGNORECASE)


def add_failpoints(definition: str) -> tuple[str, int]:
    """A PL/pgSQL function with a failpoint before every statement of its body, and the number of failpoints."""
    head, quote, rest = definition.partition("AS $function$")
    body, _, tail = rest.rpartition("$function$")
    lines: list[str] = []
    count, in_body, at_statement = 0, False, False
    for line in body.split("\n"):
        if in_body and at_statement and not _NOT_A_STATEMENT.match(line):
            count += 1
            # Write it as a condition: `perform` would change FOUND and the row count, which the next statement may read.
            lines.append(f"if headrace_prove.hit({count}) then null; end if;")
        lines.append(line)
        in_body = in_body or line.strip().lower() == "begin"
        if line.strip() and not line.strip().startswith("--"):
            at_statement = in_body and bool(_STATEMENT_END.search(line))
    return f"{head}{quote}" + "\n".join(lines) + f"$function${tail}", count


def count_statements(conn: Connection, function: str) -> int:
    return add_failpoints(function_definition(conn, function))[1]


def was_reached(conn: Connection) -> bool:
    """True once the armed failpoint has been reached often enough to end a session."""
    return conn.execute(query("prove/failpoint_reached")).fetchone() == (True,)


@contextmanager
def armed_failpoint(conn: Connection, function: str, statement: int, *, hit: int = 1) -> Iterator[None]:
    """While the block runs, the session dies that reaches a statement of a function for the n-th time."""
    original = function_definition(conn, function)
    conn.execute(query("prove/failpoint"))
    conn.execute(query("prove/arm_failpoint"), {"statement": statement, "hit": hit})
    conn.execute(add_failpoints(original)[0])
    try:
        yield
    finally:
        conn.execute(original)


SHARD_DOWN_S = (3, 5)
FAILPOINT_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 500
FUNCTION_HITS_MAX = {"run_schedule": 2, "fail": 2, "bury_actions": 1}
"""Functions that are called only this often in the time; other ones 5 times and more."""
NEEDS_POISON = frozenset({"fail", "bury_actions"})
"""Functions that are called only after a final failure."""


@fault("kill-server", "kill -9 of PostgreSQL, and a start", needs_own_server=True)
def kill_server(environment: Environment, draw: random.Random) -> Iterator[str]:
    """kill -9 of PostgreSQL with all its backends."""
    assert environment.server is not None
    yield from _take_down(environment.server, environment.server.kill, draw.uniform(*DOWN_S), "kill -9")


@fault("shard-down", "kill -9 of one shard of two, down for seconds", needs_own_server=True)
def shard_down(environment: Environment, draw: random.Random) -> Iterator[str]:
    """kill -9 of the second shard's PostgreSQL, and a start after seconds."""
    server = environment.second_server
    assert server is not None
    yield from _take_down(server, server.kill, draw.uniform(*SHARD_DOWN_S), "kill -9 of the second shard")


@fault("restart-server", "restart of PostgreSQL", needs_own_server=True)
def restart_server(environment: Environment, draw: random.Random) -> Iterator[str]:
    assert environment.server is not None
    yield from _take_down(environment.server, environment.server.stop, draw.uniform(*DOWN_S), "stop, start")


def _take_down(server: Server, stop: Callable[[], None], down_s: float, detail: str) -> Iterator[str]:
    stop()
    try:
        yield detail
        time.sleep(down_s)
    finally:
        server.start()


@fault("kill-backends", "sessions ended by pg_terminate_backend")
def kill_backends(environment: Environment, draw: random.Random) -> Iterator[str]:
    count = 0
    with environment.connect() as conn:
        for _ in range(3):
            rows = conn.execute(
                "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by pid"
            ).fetchall()
            for (pid,) in draw.sample(rows, min(len(rows), draw.randint(1, 6))):
                conn.execute("select pg_terminate_backend(%s)", (pid,))
                count += 1
            time.sleep(0.2)
    yield f"{count} sessions"


@fault("exhaust", "max_connections used up by idle connections", needs_own_server=True)
def exhaust_connections(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Opens idle connections until none is left, ends some sessions of the workload, and takes their connections too."""
    idle: list[psycopg.Connection[tuple[object, ...]]] = []

    def take_all() -> None:
        with suppress(psycopg.OperationalError):
            while len(idle) < CONNECTIONS_MAX:
                idle.append(psycopg.connect(environment.target.dsn, connect_timeout=3))

    with environment.connect() as conn:
        take_all()
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and application_name like 'headrace%' order by pid limit 4"
        )
        take_all()
    try:
        yield f"{len(idle)} connections"
        environment.hold(draw.uniform(2, 4))
    finally:
        for connection in idle:
            connection.close()


@fault("step", "a session that dies inside a function, before a statement, at its n-th execution")
def sql_failpoint(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Lets a session die inside one of the database's functions, before a statement, at its n-th execution."""
    function = draw.choice(FUNCTIONS)
    hit = draw.randint(1, FUNCTION_HITS_MAX.get(function, 5))
    with environment.connect() as conn:
        number = draw.randint(1, count_statements(conn, function))
        with armed_failpoint(conn, function, number, hit=hit):
            wait_for(environment, draw, lambda: was_reached(conn), FAILPOINT_TIMEOUT_S, needs_poison=function in NEEDS_POISON)
            died = was_reached(conn)
    detail = f"{function} statement {number} hit {hit}"
    yield f"{detail}, died there" if died else NoEffect(f"{detail}, not reached in {FAILPOINT_TIMEOUT_S:.0f} s")


@fault("disk-full", "a full disk; needs the right to mount one in memory", needs_own_server=True, opt_in=True)
def disk_full(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Fills the server's disk to the last byte. PostgreSQL may end; it is started again when there is space."""
    assert environment.small_disk is not None and environment.server is not None
    ballast = environment.small_disk / "ballast"
    written = 0
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            written += file.write(b"\0" * 1_000_000)
            file.flush()
    try:
        yield f"{written // 1_000_000} MB of ballast"
        environment.hold(draw.uniform(2, 4))
    finally:
        ballast.unlink()
        environment.server.start()
