"""Checks of rules, action queues, schedules and nodes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.db import Connection, query
from headrace.observe.doctor.check import Check

PENDING_MAX_S = 10.0
"""A running node compiles a rule within a second."""
DUE_MAX_S = 60.0
"""With enough nodes, actions wait for much less."""


def check_rules(shard: str, conn: Connection) -> Iterator[Check]:
    rows = conn.execute(query("observe/doctor/rules"), {"pending_max_s": PENDING_MAX_S}).fetchall()
    for namespace, rule, status, error, age_s in rows:
        if status == "invalid":
            advice = f"correct its condition; see: headrace rule show '{rule}' --namespace {namespace}"
            yield Check(shard, "rules", "problem", f"{namespace}/{rule} is invalid: {error}", advice)
        else:
            message = f"{namespace}/{rule} has waited {age_s:.0f} s to be compiled by a node"
            yield Check(shard, "rules", "warning", message, "run: headrace node run")
    if not rows:
        yield Check(shard, "rules", "ok", "all are compiled")


def check_actions(shard: str, conn: Connection) -> Iterator[Check]:
    healthy = True
    for namespace, due, dead, oldest_due_s in conn.execute(query("observe/doctor/queues")).fetchall():
        if oldest_due_s > DUE_MAX_S:
            healthy = False
            message = f"{namespace}: {due} actions are due; the oldest has waited {oldest_due_s:.0f} s"
            advice = f"run more nodes with handlers for them; see: headrace node list --namespace {namespace}"
            yield Check(shard, "actions", "warning", message, advice)
        if dead:
            healthy = False
            advice = f"redrive or purge them; see: headrace dead-letter groups --namespace {namespace}"
            yield Check(shard, "dead letters", "warning", f"{namespace}: {dead} actions were moved to the dead letters", advice)
    if healthy:
        yield Check(shard, "actions", "ok", "no action is late, and there are no dead letters")


def check_schedules(shard: str, conn: Connection) -> Iterator[Check]:
    rows = conn.execute(query("observe/doctor/schedules")).fetchall()
    for namespace, schedule, invalid, error in rows:
        kind = "is invalid" if invalid else "fails and is retried"
        advice = f"correct it; see: headrace schedule show '{schedule}' --namespace {namespace}"
        yield Check(shard, "schedules", "problem" if invalid else "warning", f"{namespace}/{schedule} {kind}: {error}", advice)
    if not rows:
        yield Check(shard, "schedules", "ok", "no schedule fails")


def check_nodes(shard: str, conn: Connection) -> Iterator[Check]:
    for namespace, name, silent_s in conn.execute(query("observe/doctor/nodes")).fetchall():
        message = f"{namespace}/{name} is lost: its last heartbeat was {silent_s:.0f} s ago"
        yield Check(shard, "nodes", "warning", message, "read its log; other nodes take over its work")
