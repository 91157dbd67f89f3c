"""Versions: how a rule was written over time, and on which positions each version was active."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from headrace.core import UnknownRule
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class RuleVersion:
    """A version of a rule, active from `since_position` to `until_position`, both included; never if the first is None.

    A rule that was dropped and created again has a new `rule_id`; `dropped` marks the version that is the drop."""

    rule_id: int
    version: int
    topic: str
    event_type: str
    condition: str
    action: str
    priority: int
    delay_s: int
    timing: str
    active: bool
    dropped: bool
    written_at: datetime
    written_by: str
    status: str
    error: str | None
    since_position: int | None
    until_position: int | None


def list_rule_versions(conn: Connection, name: str, *, namespace: str | None = None) -> list[RuleVersion]:
    """All versions of a rule, oldest first, also of a dropped one. Raises UnknownRule if there never was one."""
    with map_database_errors(), conn.cursor(row_factory=class_row(RuleVersion)) as cursor:
        versions = cursor.execute(query("rules/versions"), {"rule": name, "namespace": namespace}).fetchall()
    if not versions:
        raise UnknownRule(f"there never was a rule {name!r}; see: headrace rule list")
    return versions
