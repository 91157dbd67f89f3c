"""Progress: how pipelines stand, for whoever wants to know. The views and tables of the database are the truth."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class PipelineState:
    """A topic's pipeline. `rate` (events a second) and `batch_ms` are of its last twenty batches, counts of all it ever did."""

    topic: str
    namespace: str
    engine: str
    state: str
    process: str
    master: str
    started_at: datetime
    heartbeat_at: datetime
    batches: int
    events: int
    firings: int
    outputs: int
    position: int | None
    lag_events: int | None
    lag_s: float
    rate: float | None
    batch_ms: float | None
    error: str | None


@dataclass(frozen=True)
class LedgerRow:
    """A batch that was done: the events after `from_position`, up to `upto`, and what came of them."""

    batch: int
    from_position: int
    upto: int
    firings: int
    outputs: int
    timers: int
    took_ms: float
    committed_at: datetime


def list_pipelines(conn: Connection, *, topic: str | None = None, namespace: str | None = None) -> list[PipelineState]:
    """The pipelines of a namespace, by topic; also those that ended."""
    with map_database_errors(), conn.cursor(row_factory=class_row(PipelineState)) as cursor:
        return cursor.execute(query("spark/pipeline/states"), {"topic": topic, "namespace": namespace}).fetchall()


def list_batches(conn: Connection, topic: str, *, limit: int = 20, namespace: str | None = None) -> list[LedgerRow]:
    """The newest batches of a topic's pipeline, the newest first. Raises UnknownTopic."""
    with map_database_errors(), conn.cursor(row_factory=class_row(LedgerRow)) as cursor:
        return cursor.execute(
            query("spark/pipeline/batches"), {"topic": topic, "namespace": namespace, "limit": limit}
        ).fetchall()
