"""Versions: what a rule was, when, and from which position to which it was in force."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from headrace.core import UnknownRule
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class RuleVersion:
    """A version. It was in force from `since_position` to `until_position`, both included; never where the first is None.

    A rule that was dropped and created again has another `rule_id`; `dropped` marks the version that is the deletion."""

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
    """All versions of a rule, oldest first, also of one that was dropped. Raises UnknownRule where there never was one."""
    with map_database_errors(), conn.cursor(row_factory=class_row(RuleVersion)) as cursor:
        found = cursor.execute(query("rules/versions"), {"rule": name, "namespace": namespace}).fetchall()
    if not found:
        raise UnknownRule(f"there never was a rule {name!r}; see: headrace rule list")
    return found
