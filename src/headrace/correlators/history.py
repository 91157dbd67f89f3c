"""The history of a correlator's outputs, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from headrace.correlators.correlator import get_correlator
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class PastOutput:
    """A recorded output: its time, its event (None: a timer), its evidence, and the action or event it became."""

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
    captured: dict[str, object] | None = None
    """What the registers held; None for a pattern without registers."""


def list_correlations(
    conn: Connection, name: str, *, key: str | None = None, limit: int = 100, namespace: str | None = None
) -> list[PastOutput]:
    """The newest outputs of a correlator, oldest first. Raises UnknownCorrelator where nothing of that name ever ran."""
    parameters = {"correlator": name, "key": key, "limit": limit, "namespace": namespace}
    with map_database_errors(), conn.cursor(row_factory=class_row(PastOutput)) as cursor:
        outputs = cursor.execute(query("correlators/correlations"), parameters).fetchall()
    if not outputs:
        get_correlator(conn, name, namespace=namespace)
    return outputs
