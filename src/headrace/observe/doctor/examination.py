"""Runs the checks in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from headrace.core import DatabaseUnavailable, HeadraceError
from headrace.db import Connection, Target, connect, map_database_errors, pending_steps, query
from headrace.observe.doctor.checks import Check, Finding, Level
from headrace.observe.doctor.server import check_server
from headrace.observe.doctor.state import check_actions, check_consumers, check_outbox

LIMITS = {"transaction_max_s": 300.0, "pending_max_s": 10.0, "ahead_max_s": 2.0}
"""Parameters of the queries. A running node compiles a pending rule within a second. NTP turns a clock back by less than a second."""

Checks: TypeAlias = Mapping[str, Callable[[Connection], Iterator[Finding]] | str | None]
"""Checks by their names: a function; or, for a query of observe/doctor that lists findings, what no finding means."""
SERVER_CHECKS: Checks = {
    "server": check_server,
    "open transactions": f"none older than {LIMITS['transaction_max_s']:.0f} s",
    "extensions": None,
}
STATE_CHECKS: Checks = {
    "time partitions": "created ahead",
    "log time": "not ahead of the clock",
    "outbox": check_outbox,
    "consumers": check_consumers,
    "rules": "all are compiled",
    "correlators": "all are compiled",
    "actions": check_actions,
    "schedules": "no schedule fails",
    "relays": "all are run by a node",
    "nodes": None,
    "indexes": "all are valid",
    "replica identity": "publications stop nothing",
    "jit": "no function of headrace is compiled when it is called",
    "failures": "nothing fails in the loops of the nodes",
    "erasures": "all are finished",
    "grants": "as headrace sets them",
    "search path": "nobody else may create in its schemas",
    "owner": "no superuser",
}


def examine(target: Target) -> list[Check]:
    """Runs all checks on one database. A check that fails to run becomes a problem, and the others still run."""
    try:
        with connect(target) as conn:
            findings: list[Finding] = [("reachable", "ok", str(target)), *_run(conn, SERVER_CHECKS), _check_migrated(conn)]
            if findings[-1][1] == "ok":
                findings += _run(conn, STATE_CHECKS)
    except DatabaseUnavailable as error:
        advice = "start PostgreSQL, or correct HEADRACE_DSN; see: headrace server status"
        findings = [("reachable", "problem", str(error), advice)]
    return [Check(target.name, *finding) for finding in findings]


def _run(conn: Connection, checks: Checks) -> Iterator[Finding]:
    for name, check in checks.items():
        try:
            with map_database_errors(), conn.transaction():
                # An operator's session: it must not call what somebody has created under the name of a function of PostgreSQL.
                conn.execute("set local search_path = pg_catalog, pg_temp")
                if callable(check):
                    yield from check(conn)
                    continue
                rows = conn.execute(query(f"observe/doctor/{name.replace(' ', '_')}"), LIMITS).fetchall()
                yield from rows
                if not rows and check:
                    yield name, "ok", check
        except HeadraceError as error:
            yield name, "problem", f"the check failed: {error}", "make sure that your role may read this database"


def _check_migrated(conn: Connection) -> Finding:
    try:
        with map_database_errors():
            missing = pending_steps(conn)
    except HeadraceError as error:
        return "migrated", "problem", str(error), "install the version of headrace that this database was migrated with"
    if missing:
        return "migrated", "problem", f"{len(missing)} steps of the schema are missing", "run: headrace migrate"
    return "migrated", "ok", "the schema is up to date"


def compare_shards(targets: Sequence[Target]) -> list[Check]:
    """Checks that all shards have the same topics and numbers of partitions. Unreachable shards are skipped."""
    shapes: dict[str, dict[str, int]] = {}
    for target in targets:
        try:
            with connect(target) as conn, map_database_errors():
                shapes[target.name] = dict(conn.execute(query("observe/doctor/topic_shapes")).fetchall())
        except HeadraceError:
            continue  # The checks of this shard report the error.
    if len(shapes) < 2:
        return []
    all_topics = {topic: partitions for shape in shapes.values() for topic, partitions in shape.items()}
    return [Check(shard, "same topics", *_compare(shape, all_topics)) for shard, shape in shapes.items()]


def _compare(shape: dict[str, int], all_topics: dict[str, int]) -> tuple[Level, str, str | None]:
    missing = sorted(all_topics.keys() - shape.keys())
    different = sorted(topic for topic, partitions in shape.items() if all_topics[topic] != partitions)
    if missing:
        advice = "run on this shard: headrace topic create … --if-not-exists"
        return "problem", f"topics are missing: {', '.join(missing)}", advice
    if different:
        advice = "raise the lower number: headrace topic alter … --partitions"
        return "warning", f"other shards have another number of partitions: {', '.join(different)}", advice
    return "ok", f"{len(shape)} topics", None
