"""Runs the checks in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headrace.core import DatabaseUnavailable, HeadraceError
from headrace.db import Connection, Target, connect, map_database_errors, pending_steps, query
from headrace.observe.doctor.check import Check
from headrace.observe.doctor.reactions import check_actions, check_nodes, check_rules, check_schedules
from headrace.observe.doctor.server import check_server
from headrace.observe.doctor.state import check_consumers, check_indexes, check_outbox, check_time_partitions

Checks = Callable[[str, Connection], Iterator[Check]]
_STATE_CHECKS: tuple[Checks, ...] = (
    check_time_partitions,
    check_outbox,
    check_consumers,
    check_rules,
    check_actions,
    check_schedules,
    check_nodes,
    check_indexes,
)


def examine(target: Target) -> list[Check]:
    """Runs all checks on one database. A check that fails to run becomes a problem, and the others still run."""
    try:
        with connect(target) as conn:
            checks = [Check(target.name, "reachable", "ok", str(target)), *_run(target.name, conn, (check_server,))]
            migrated = _check_migrated(target.name, conn)
            checks.append(migrated)
            if migrated.level == "ok":
                checks += _run(target.name, conn, _STATE_CHECKS)
            return checks
    except DatabaseUnavailable as error:
        advice = "start PostgreSQL, or correct HEADRACE_DSN; see: headrace server status"
        return [Check(target.name, "reachable", "problem", str(error), advice)]


def _run(shard: str, conn: Connection, checks: Sequence[Checks]) -> Iterator[Check]:
    for check in checks:
        try:
            with map_database_errors():
                yield from check(shard, conn)
        except HeadraceError as error:
            name = check.__name__.removeprefix("check_").replace("_", " ")
            yield Check(shard, name, "problem", f"the check failed: {error}", "make sure that your role may read this database")


def _check_migrated(shard: str, conn: Connection) -> Check:
    try:
        with map_database_errors():
            missing = pending_steps(conn)
    except HeadraceError as error:
        return Check(
            shard, "migrated", "problem", str(error), "install the version of headrace that this database was migrated with"
        )
    if missing:
        return Check(shard, "migrated", "problem", f"{len(missing)} steps of the schema are missing", "run: headrace migrate")
    return Check(shard, "migrated", "ok", "the schema is up to date")


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
    return [_compare(shard, shape, all_topics) for shard, shape in shapes.items()]


def _compare(shard: str, shape: dict[str, int], all_topics: dict[str, int]) -> Check:
    missing = sorted(all_topics.keys() - shape.keys())
    different = sorted(topic for topic, partitions in shape.items() if all_topics[topic] != partitions)
    if missing:
        advice = "run on this shard: headrace topic create … --if-not-exists"
        return Check(shard, "same topics", "problem", f"topics are missing: {', '.join(missing)}", advice)
    if different:
        advice = "raise the lower number: headrace topic alter … --partitions"
        return Check(
            shard, "same topics", "warning", f"other shards have another number of partitions: {', '.join(different)}", advice
        )
    return Check(shard, "same topics", "ok", f"{len(shape)} topics")
