"""Checks of what follows the log: rules, action queues, schedules, nodes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.db import Connection, query
from headrace.observe.doctor.check import Check

PENDING_MAX_S = 10.0
"""A rule is compiled within a second while a node runs."""
DUE_MAX_S = 60.0


def check_rules(shard: str, conn: Connection) -> Iterator[Check]:
    found = conn.execute(query("observe/doctor/rules"), {"pending_max_s": PENDING_MAX_S}).fetchall()
    for namespace, rule, status, error, age_s in found:
        if status == "invalid":
            advice = f"mend its condition: headrace rule show '{rule}' --namespace {namespace}"
            yield Check(shard, "rules", "problem", f"{namespace}/{rule} is invalid: {error}", advice)
        else:
            message = f"{namespace}/{rule} waits for a compiler for {age_s:.0f} s"
            yield Check(shard, "rules", "warning", message, "run: headrace node run")
    if not found:
        yield Check(shard, "rules", "ok", "none is invalid or waits")


def check_actions(shard: str, conn: Connection) -> Iterator[Check]:
    well = True
    for namespace, due, dead, oldest_due_s in conn.execute(query("observe/doctor/queues")).fetchall():
        if oldest_due_s > DUE_MAX_S:
            well = False
            message = f"{namespace}: {due} are due, the oldest for {oldest_due_s:.0f} s"
            advice = f"see: headrace node list --namespace {namespace}; run more nodes that handle them"
            yield Check(shard, "actions", "warning", message, advice)
        if dead:
            well = False
            advice = f"see: headrace dead-letter groups --namespace {namespace}; then redrive or purge them"
            yield Check(shard, "dead letters", "warning", f"{namespace}: {dead} actions were put aside", advice)
    if well:
        yield Check(shard, "actions", "ok", "none is late, none is dead")


def check_schedules(shard: str, conn: Connection) -> Iterator[Check]:
    found = conn.execute(query("observe/doctor/schedules")).fetchall()
    for namespace, schedule, invalid, error in found:
        kind = "is invalid" if invalid else "fails, and is tried again"
        advice = f"see: headrace schedule show '{schedule}' --namespace {namespace}"
        yield Check(shard, "schedules", "problem" if invalid else "warning", f"{namespace}/{schedule} {kind}: {error}", advice)
    if not found:
        yield Check(shard, "schedules", "ok", "none fails")


def check_nodes(shard: str, conn: Connection) -> Iterator[Check]:
    for namespace, name, silent_s in conn.execute(query("observe/doctor/nodes")).fetchall():
        message = f"{namespace}/{name} is lost: it has been silent for {silent_s:.0f} s"
        yield Check(shard, "nodes", "warning", message, "look at its log; what it had in hand, others take over")
