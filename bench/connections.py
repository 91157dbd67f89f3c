"""What a budget of connections costs: ten consumers and twenty handlers on one node with ten connections, against one that has a
connection for every worker.

Each round publishes a batch to ten topics and waits until all consumers and handlers are done. The sides take turns, so that
a change of the machine's load meets both."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.child import Child, child
from bench.connections_node import CONSUMERS, HANDLERS
from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace import Event
from headrace.db import CONNECTIONS, Connection, Target, connect
from headrace.log.outbox import publish_many
from headrace.log.topics import create_topic
from headrace.rules import Rule, create_rule

UNLIMITED = 90
"""More than all workers and loops could use."""
USED = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"
ACTIVE = "select count(*) from headrace.rule where status = 'valid'"


@dataclass(frozen=True)
class Plan:
    rounds: int
    events: int
    """Per topic and round."""


FULL = Plan(rounds=7, events=2000)
QUICK = Plan(rounds=1, events=200)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    budget, unlimited = Side("budget", []), Side("unlimited", [])
    with lab.database("connections", partitions=1) as target, connect(target) as conn:
        _prepare(conn)
        for number in range(plan.rounds):
            sides = [(budget, CONNECTIONS), (unlimited, UNLIMITED)]
            for side, connections in sides if number % 2 else reversed(sides):
                with child("bench.connections_node", target.dsn, str(connections)) as node:
                    side.rounds.append(measure(lab, target, conn, node, plan.events))
    used = max(round_.notes["connections"] for round_ in budget.rounds)
    before = max(round_.notes["connections"] for round_ in unlimited.rounds)
    figures = [
        Figure("connections of the node", used, CONNECTIONS, unit="", at_most=True, detail=f"without a budget {before:.0f}"),
        ratio("rate with a budget : without", budget, unlimited, 0.9),
    ]
    report("connections", facts, figures, {"budget": budget, "unlimited": unlimited})


def _prepare(conn: Connection) -> None:
    conn.execute("create table effect (who integer); update headrace_internal.namespace set unknown_names = 'allow'")
    for number in range(CONSUMERS):
        create_topic(conn, f"t{number}", partitions=4)
    for number in range(HANDLERS):
        create_rule(conn, Rule(name=f"r{number}", topic=f"t{number % CONSUMERS}", event_type=f"e{number}", action=f"A{number}"))


def measure(lab: Lab, target: Target, conn: Connection, node: Child, events: int) -> Round:
    """Publishes to every topic, and waits for the consumers and for the actions, which every tenth event sends."""
    while _value(conn, ACTIVE) < HANDLERS:
        time.sleep(0.05)
    handled, actions = (node.ask()[name] for name in ("handled", "actions"))
    started, cpu = time.perf_counter(), lab.cpu_s([node.pid])
    for topic in range(CONSUMERS):
        types = [f"e{topic + CONSUMERS * (key // 10 % 2)}" if key % 10 == 0 else "other" for key in range(events)]
        publish_many(
            conn, [Event(topic=f"t{topic}", type=type, key=str(key), payload={"n": key}) for key, type in enumerate(types)]
        )
    wanted, sent, connections = CONSUMERS * events, CONSUMERS * ((events + 9) // 10), 0
    while True:
        counts = node.ask()
        connections = max(connections, _value(conn, USED))
        if counts["handled"] - handled >= wanted and counts["actions"] - actions >= sent:
            break
        time.sleep(0.02)
    total = wanted + sent
    elapsed = time.perf_counter() - started
    return Round(total / elapsed, 1e6 * (lab.cpu_s([node.pid]) - cpu) / total, {"connections": connections})


def _value(conn: Connection, statement: str) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row[0])
