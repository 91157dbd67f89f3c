"""Faults of processes."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from psycopg.conninfo import make_conninfo

from headrace.db import query
from headrace.prove.environment import Environment
from headrace.prove.evidence import NoEffect
from headrace.prove.faults.load import publish_poison

DOWN_S = (0.2, 1.5)
CLOCK_SHIFTS_S = (-3, 3, 5)
NODE_DEATH_TIMEOUT_S = 20.0
PIPELINE_TIMEOUT_S = 60.0
POISON_EVERY_S = 2.0
HITS_MAX = {"trim-outbox": 3, "run-schedule": 4, "fail": 3}
"""Statements that a node executes only this often in the time; other ones 8 times and more."""


@contextmanager
def kill_producer(environment: Environment, draw: random.Random) -> Iterator[str]:
    yield from _kill(environment, draw, "producer")


@contextmanager
def kill_node(environment: Environment, draw: random.Random) -> Iterator[str]:
    yield from _kill(environment, draw, "node")


@contextmanager
def kill_sink(environment: Environment, draw: random.Random) -> Iterator[str]:
    yield from _kill(environment, draw, "sink")


@contextmanager
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


def _kill(environment: Environment, draw: random.Random, role: str) -> Iterator[str]:
    name = draw.choice(environment.processes.of_role(role))
    count = environment.processes.kill(name)
    yield name if count == 1 else f"{name}, {count} processes"
    environment.hold(draw.uniform(*DOWN_S))
    environment.processes.start(name)


@contextmanager
def stop_node(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Stops a node for longer than a lease: when it continues, it does not know that others hold its actions now."""
    name = draw.choice(environment.processes.of_role("node"))
    environment.processes.signal(name, signal.SIGSTOP)
    try:
        yield name
        time.sleep(environment.lease_s)
        environment.hold(draw.uniform(1, 3))
    finally:
        environment.processes.signal(name, signal.SIGCONT)


@contextmanager
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


@contextmanager
def failpoint(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Lets a node die before or after a statement of its loops, at the n-th execution."""
    processes = environment.processes
    name, point = draw.choice(processes.of_role("node")), environment.next_failpoint(draw)
    statement = point.partition(":")[2]
    hit = draw.randint(1, HITS_MAX.get(statement, 8))
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
