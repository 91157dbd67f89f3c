"""Few events: what an event costs in CPU of server and node where a step has few of them, and how long it takes. With `--old FOLDER`, a
checkout of an older commit with its own environment, both trees are measured in turns in one run.

Cases: one topic and one consumer at 20, 200 and 1 000 events a second; a topic with a rule, a correlator and a handler of actions at 50; a
company of 200 topics, 300 consumers, 500 rules and 50 correlators at 200 in all; and 100 topics at 1 000 in all. Everything that
the server does is counted, publishing included; the publisher's own process is not.

A case runs in a process of its own, `python -P bench/low_rates.py case NAME SECONDS`, in the environment of its tree."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

FILE = Path(__file__).resolve()
WARM_S = 4.0
"""The first events after a start plan their statements."""
ACTIONS = ("PAID", "LARGE", "TWICE")


@dataclass(frozen=True)
class Case:
    """An installation and its load."""

    rate: float
    topics: int = 1
    consumers: int = 1
    rules: int = 0
    correlators: int = 0
    ratio_max: float = 0.45
    """New : old, CPU of an event."""


CASES = {
    "one_20": Case(20),
    "one_200": Case(200),
    "one_1000": Case(1000),
    "mixed_50": Case(50, rules=1, correlators=1, ratio_max=0.35),
    "company_200": Case(200, topics=200, consumers=300, rules=500, correlators=50, ratio_max=0.35),
    "topics_1000": Case(1000, topics=100, consumers=100, ratio_max=1.0),
}


def run(lab: Any, *, quick: bool, old: Path | None = None, cases: Sequence[str] | None = None) -> None:
    from bench.lab import surroundings
    from bench.result import Figure, report

    seconds, rounds = (4.0, 1) if quick else (12.0, 3)
    trees = {"new": FILE.parent.parent} | ({"old": old.resolve()} if old else {})
    figures: list[Figure] = []
    raw: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in cases or CASES:
        rows = raw[name] = {tree: [] for tree in trees}
        for _ in range(rounds):
            for tree, folder in trees.items():
                rows[tree].append(_measure(folder, name, seconds))
                print(name, tree, {key: round(value, 3) for key, value in rows[tree][-1].items()}, flush=True)
        figures += _figures(name, rows)
    if {"one_1000", "topics_1000"} <= raw.keys():
        one, many = (_middle(raw[name]["new"])["cpu_ms"] for name in ("one_1000", "topics_1000"))
        figures.append(Figure("100 topics : one, CPU of an event at 1 000/s", many / one, 2, at_most=True))
    report("low_rates", surroundings(lab), figures, raw)


def _figures(name: str, rows: dict[str, list[dict[str, float]]]) -> list[Any]:
    from bench.result import Figure

    new = _middle(rows["new"])
    detail = (
        f"server {new['server_ms']:.2f} + node {new['node_ms']:.2f} ms an event, {new['cores']:.3f} cores, "
        f"p50 {new['p50_ms']:.1f}, p99 {new['p99_ms']:.1f} ms"
    )
    if "old" not in rows:
        return [Figure(f"{name}: CPU of an event", round(new["cpu_ms"], 3), 0, unit="ms", detail=detail)]
    old = _middle(rows["old"])
    detail += (
        f"; old {old['server_ms']:.2f} + {old['node_ms']:.2f} ms, {old['cores']:.3f} cores, "
        f"p50 {old['p50_ms']:.1f}, p99 {old['p99_ms']:.1f} ms"
    )
    return [
        Figure(
            f"{name}: new : old, CPU of an event",
            new["cpu_ms"] / old["cpu_ms"],
            CASES[name].ratio_max,
            at_most=True,
            detail=detail,
        )
    ]


def _middle(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: median(row[key] for row in rows) for key in rows[0]}


def _measure(folder: Path, name: str, seconds: float) -> dict[str, float]:
    python = folder / ".venv/bin/python"
    command = [str(python if python.exists() else sys.executable), "-P", str(FILE), "case", name, str(seconds)]
    environment = os.environ | {"PYTHONPATH": f"{folder / 'src'}:{folder}"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return row


# What follows runs in a process of the measured tree, and uses only what every commit has.


def measure_case(name: str, seconds: float) -> dict[str, float]:
    """CPU milliseconds of server and node for an event, and how long events took to their handlers."""
    from bench.lab import cpu_s, lab
    from headrace.db import connect

    case = CASES[name]
    with lab() as server, server.database(name, partitions=1) as target:
        with connect(target) as conn:
            _define(conn, case)
        with _Child(["node", target.dsn, name]) as node, _Child(["publish", target.dsn, name]) as publisher:
            time.sleep(WARM_S)
            before, sent = node.ask(), publisher.ask()["published"]
            server_s, node_s, started = server.cpu_s(), cpu_s(node.pid), time.monotonic()
            time.sleep(seconds)
            after, server_s, node_s = node.ask(), server.cpu_s() - server_s, cpu_s(node.pid) - node_s
            elapsed = time.monotonic() - started
            events = publisher.ask()["published"] - sent
        ways = after["ways_ms"] or [0.0]
        return {
            "server_ms": 1000 * server_s / events,
            "node_ms": 1000 * node_s / events,
            "cpu_ms": 1000 * (server_s + node_s) / events,
            "cores": (server_s + node_s) / elapsed,
            "rate": events / elapsed,
            "handled": (after["handled"] - before["handled"]) / events,
            "actions": (after["actions"] - before["actions"]) / events,
            "p50_ms": ways[len(ways) // 2],
            "p99_ms": ways[min(len(ways) - 1, int(0.99 * len(ways)))],
        }


class _Child:
    """This file in another role, in a process of its own."""

    def __init__(self, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-P", str(FILE), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def __enter__(self) -> _Child:
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{self._process.args} did not start")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def ask(self) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _topic(number: int) -> str:
    return "bench" if number == 0 else f"bench{number}"


def _define(conn: Any, case: Case) -> None:
    for number in range(1, case.topics):
        conn.execute("select headrace.create_topic(%s)", (_topic(number),))
    for number in range(case.rules):
        conn.execute(
            "insert into headrace.rule (rule, topic, event_type, condition, action) values (%s, %s, %s, %s, %s)",
            (
                f"rule_{number}",
                _topic(number % case.topics),
                "order.paid",
                f"(object -> 'amount')::int >= {0 if case.topics == 1 else 900 + number % 100}",
                ACTIONS[number % 2],
            ),
        )
    for number in range(case.correlators):
        conn.execute(
            "insert into headrace.correlator (correlator, topic, key, pattern, outputs) values (%s, %s, 'key', %s, %s)",
            (
                f"pattern_{number}",
                _topic(number * max(case.topics // max(case.correlators, 1), 1)),
                "repeat {push(twice) {sequential {order.paid, order.paid}}}",
                json.dumps({"twice": {"action": ACTIONS[2]}}),
            ),
        )


async def _node(dsn: str, name: str) -> None:
    from bench.child import answer
    from headrace import Action, Batch, Headrace
    from headrace.core import LoggedEvent
    from headrace.db import AsyncConnection, Target
    from headrace.node import Node

    case = CASES[name]
    app = Headrace()
    ways_ms: list[float] = []

    for number in range(case.consumers):

        async def handle(events: Sequence[LoggedEvent], conn: AsyncConnection) -> None:
            now = time.time()
            ways_ms.extend(1000 * (now - event.emitted_at.timestamp()) for event in events)

        handle.__annotations__ = {"events": Sequence[LoggedEvent], "conn": AsyncConnection, "return": None}
        app.consumer(_topic(number % case.topics), name=f"consumer_{number}", batch=Batch(min=1, max=100))(handle)
    if case.rules:
        for action in ACTIONS:

            async def act(action: Action, conn: AsyncConnection) -> None:
                await asyncio.sleep(0)

            act.__annotations__ = {"action": Action, "conn": AsyncConnection, "return": None}
            app.handler(action)(act)
    node = Node(app, [Target("bench", dsn)])

    def report() -> dict[str, Any]:
        counts = {"handled": node.handled, "actions": node.actions, "ways_ms": sorted(ways_ms)}
        ways_ms.clear()
        return counts

    running = asyncio.create_task(node.run())
    await asyncio.sleep(3.0 if case.topics > 1 or case.rules else 0.5)
    await answer(report)
    node.stop()
    await running


async def _publish(dsn: str, name: str) -> None:
    """Publishes at the case's rate, one event per transaction, at random moments, from up to four connections."""
    import psycopg

    from bench.child import answer
    from bench.pgbench import PAYLOAD

    case, chance, published = CASES[name], Random(1), 0
    connections = [await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0) for _ in range(4)]
    payload = json.dumps(json.loads(PAYLOAD) | {"amount": 500})

    async def publish(conn: psycopg.AsyncConnection[Any], rate: float) -> None:
        nonlocal published
        due = time.monotonic()
        while True:
            due += chance.expovariate(rate)
            await asyncio.sleep(max(due - time.monotonic(), 0))
            parameters = (_topic(chance.randrange(case.topics)), payload, f"customer-{chance.randrange(1000)}")
            await conn.execute("select headrace.publish(%s::text, 'order.paid', %s::jsonb, %s::text)", parameters)
            published += 1

    tasks = [asyncio.create_task(publish(conn, case.rate / len(connections))) for conn in connections]
    await answer(lambda: {"published": published})
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role == "case":
        print(json.dumps(measure_case(arguments[0], float(arguments[1]))))
    else:
        asyncio.run({"node": _node, "publish": _publish}[role](*arguments))
