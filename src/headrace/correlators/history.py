"""History: what correlators have pushed, and from which evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from headrace.correlators.correlator import get_correlator
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class PastOutput:
    """A token on record: when, by which event (none: by a timer), from which evidence, and what it became."""

    correlator: str
    version: int
    topic: str
    key: str
    token: str
    output_at: datetime
    position: int | None
    event_id: UUID | None
    evidence: list[int]
    evidence_total: int
    becomes: str | None
    name: str | None
    output_id: UUID


def list_correlations(
    conn: Connection, name: str, *, key: str | None = None, limit: int = 100, namespace: str | None = None
) -> list[PastOutput]:
    """The newest outputs of a correlator, in their order. Raises UnknownCorrelator where nothing of that name ever ran."""
    given = {"correlator": name, "key": key, "limit": limit, "namespace": namespace}
    with map_database_errors(), conn.cursor(row_factory=class_row(PastOutput)) as cursor:
        found = cursor.execute(query("correlators/correlations"), given).fetchall()
    if not found:
        get_correlator(conn, name, namespace=namespace)
    return found
