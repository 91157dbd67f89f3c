"""The round: which checks are made, in which order, and what keeps later ones from being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headrace.core import DatabaseUnavailable, HeadraceError
from headrace.db import Connection, Target, connect, map_database_errors, pending_steps, query
from headrace.observe.doctor.check import Check
from headrace.observe.doctor.reactions import check_actions, check_nodes, check_rules, check_schedules
from headrace.observe.doctor.server import check_server
from headrace.observe.doctor.state import check_consumers, check_indexes, check_outbox, check_time_partitions

Checks = Callable[[str, Connection], Iterator[Check]]
_STATE: tuple[Checks, ...] = (
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
    """All checks of one database; what cannot be checked is told, and the rest goes on."""
    try:
        with connect(target) as conn:
            found = [Check(target.name, "reachable", "ok", str(target)), *_round(target.name, conn, (check_server,))]
            migrated = _check_migrated(target.name, conn)
            found.append(migrated)
            if migrated.level == "ok":
                found += _round(target.name, conn, _STATE)
            return found
    except DatabaseUnavailable as error:
        advice = "start PostgreSQL, or correct HEADRACE_DSN; see: headrace server status"
        return [Check(target.name, "reachable", "problem", str(error), advice)]


def _round(shard: str, conn: Connection, checks: Sequence[Checks]) -> Iterator[Check]:
    for check in checks:
        try:
            with map_database_errors():
                yield from check(shard, conn)
        except HeadraceError as error:
            name = check.__name__.removeprefix("check_").replace("_", " ")
            yield Check(shard, name, "problem", f"cannot be checked: {error}", "see whether the role may read it")


def _check_migrated(shard: str, conn: Connection) -> Check:
    try:
        with map_database_errors():
            missing = pending_steps(conn)
    except HeadraceError as error:
        return Check(shard, "migrated", "problem", str(error), "install the version that belongs to this database")
    if missing:
        return Check(shard, "migrated", "problem", f"{len(missing)} steps are missing", "run: headrace migrate")
    return Check(shard, "migrated", "ok", "the schema of this version")


def compare_shards(targets: Sequence[Target]) -> list[Check]:
    """Do all shards have the same topics, with the same number of partitions? Shards that cannot be read are passed over."""
    shapes: dict[str, dict[str, int]] = {}
    for target in targets:
        try:
            with connect(target) as conn, map_database_errors():
                shapes[target.name] = dict(conn.execute(query("observe/doctor/topic_shapes")).fetchall())
        except HeadraceError:
            continue  # Its own checks tell why.
    if len(shapes) < 2:
        return []
    wanted = {topic: partitions for shape in shapes.values() for topic, partitions in shape.items()}
    return [_compare(shard, shape, wanted) for shard, shape in shapes.items()]


def _compare(shard: str, shape: dict[str, int], wanted: dict[str, int]) -> Check:
    missing = sorted(wanted.keys() - shape.keys())
    other = sorted(topic for topic, partitions in shape.items() if wanted[topic] != partitions)
    if missing:
        advice = "run there: headrace topic create … --if-not-exists"
        return Check(shard, "same topics", "problem", f"lacks {', '.join(missing)}", advice)
    if other:
        advice = "raise the lower number: headrace topic alter … --partitions"
        return Check(shard, "same topics", "warning", f"another number of partitions than elsewhere: {', '.join(other)}", advice)
    return Check(shard, "same topics", "ok", f"{len(shape)} topics")
