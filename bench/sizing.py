"""Sizing: what one event costs in CPU, disk, WAL and connections, part by part, for docs/operations.md.

Figures are costs per event, not ratios: they belong to this machine. CPU time is that of the server and of the client or node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.lab import Lab, surroundings
from bench.result import Figure, report
from headrace.actions import Action, send_action
from headrace.consume import Batch
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target, connect
from headrace.log.outbox import publish
from headrace.log.topics import create_topic, sequence
from headrace.node import Headrace, Node
from headrace.rules import Rule, create_rule

PAYLOAD = {"id": 1, "customer": "c-1234567", "items": [{"sku": "A-100", "count": 2, "price": 1999}], "note": "x" * 60}
"""About 150 bytes as JSON."""
RULES = 100
SIZE = "select sum(pg_total_relation_size(p.relid)) from pg_partition_tree(%s::regclass) p where p.isleaf"
WAL = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
USED = "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'headrace%' and pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Cost:
    """Of one event in one part."""

    server_us: float
    client_us: float
    """Of the publisher or the node."""
    wal_bytes: float


def run(lab: Lab, *, quick: bool) -> None:
    events = 500 if quick else 20_000
    facts = surroundings(lab)
    with lab.database("sizing", partitions=4) as target, connect(target) as conn:
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        measure = _meter(lab, conn, events)
        costs = {"publish": measure(lambda: _publish(conn, "bench", events)), "sequence": measure(lambda: _drain(conn))}
        app, actions = Headrace(), Headrace()
        handled = [0, 0]

        @app.consumer("bench", batch=Batch(max=100))
        async def consume(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
            handled[0] += len(events)

        @actions.handler("act")
        async def act(action: Action, tx: AsyncConnection) -> None:
            handled[1] += 1

        connections: list[int] = []
        costs["consume"] = measure(lambda: _run_node(app, target, conn, lambda: handled[0] >= events, connections))
        size = conn.execute(SIZE, (f"headrace_internal.log_{_topic_id(conn, 'bench')}",)).fetchone()
        costs["rules"] = _rules(target, conn, events, measure)
        for _ in range(events):
            send_action(conn, "act", PAYLOAD)
        costs["action"] = measure(lambda: _run_node(actions, target, conn, lambda: handled[1] >= events, connections))
    unit = "µs an event"
    figures = [Figure(f"CPU of the server, {name}", round(cost.server_us, 1), 0, unit=unit) for name, cost in costs.items()]
    figures += [Figure(f"CPU of the process, {name}", round(cost.client_us, 1), 0, unit=unit) for name, cost in costs.items()]
    figures += [Figure(f"WAL, {name}", round(cost.wal_bytes), 0, unit="bytes an event") for name, cost in costs.items()]
    figures.append(Figure("disk of the log", round(int(size[0]) / events) if size else 0, 0, unit="bytes an event"))
    figures.append(Figure("connections of a node", max(connections), 0, unit=""))
    report("sizing", facts, figures, {})


def _meter(lab: Lab, conn: Connection, events: int) -> Callable[[Callable[[], None]], Cost]:
    def measure(part: Callable[[], None]) -> Cost:
        conn.execute("checkpoint")
        server_s, client_s, wal = lab.cpu_s(), time.process_time(), _wal(conn)
        part()
        server_us, client_us = 1e6 * (lab.cpu_s() - server_s) / events, 1e6 * (time.process_time() - client_s) / events
        return Cost(server_us, client_us, (_wal(conn) - wal) / events)

    return measure


def _wal(conn: Connection) -> int:
    row = conn.execute(WAL).fetchone()
    return int(row[0]) if row else 0


def _topic_id(conn: Connection, topic: str) -> int:
    row = conn.execute("select headrace.topic_id(%s)", (topic,)).fetchone()
    return int(row[0]) if row else 0


def _publish(conn: Connection, topic: str, events: int) -> None:
    """One event per transaction, as an application does it."""
    for number in range(events):
        publish(conn, topic, "placed", {**PAYLOAD, "id": number}, key=f"k{number % 1000}")


def _drain(conn: Connection) -> None:
    while sequence(conn):
        pass


def _rules(target: Target, conn: Connection, events: int, measure: Callable[[Callable[[], None]], Cost]) -> Cost:
    """A hundred rules of one comparison each; one event in a hundred fires one."""
    create_topic(conn, "ruled")
    for number in range(RULES):
        condition = f"(object -> 'id')::int = {number}"
        create_rule(conn, Rule(name=f"r{number}", topic="ruled", event_type="placed", condition=condition, action="none"))
    compiled = "select count(*) filter (where status = 'valid') from headrace.rule"
    _run_node(Headrace(), target, conn, lambda: conn.execute(compiled).fetchone() == (RULES,), [])
    _publish(conn, "ruled", events)
    _drain(conn)
    passed = "select min(position) from headrace.cursor c join headrace.consumer u using (consumer_id) where u.topic_id = %s"
    topic_id = _topic_id(conn, "ruled")
    return measure(
        lambda: _run_node(Headrace(), target, conn, lambda: conn.execute(passed, (topic_id,)).fetchone() == (events,), [])
    )


def _run_node(app: Headrace, target: Target, conn: Connection, is_done: Callable[[], bool], connections: list[int]) -> None:
    async def work() -> None:
        node = Node(app, [target])
        running = asyncio.create_task(node.run())
        while not is_done():
            await asyncio.sleep(0.05)
            row = conn.execute(USED).fetchone()
            connections.append(int(row[0]) if row else 0)
        node.stop()
        await running

    asyncio.run(work())
