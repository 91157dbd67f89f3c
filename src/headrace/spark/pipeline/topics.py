"""Topics on Spark: which engine a topic runs on, and the progress of its pipeline, as the database records it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from headrace.db import Connection, map_database_errors, query

Engine = Literal["database", "spark"]


@dataclass(frozen=True)
class PipelineState:
    """A topic's pipeline. `rate` (events a second) and `batch_ms` cover its last twenty batches; counts cover all of them."""

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
    """A finished batch: the events after `from_position` up to `upto`, and their results."""

    batch: int
    from_position: int
    upto: int
    firings: int
    outputs: int
    timers: int
    took_ms: float
    committed_at: datetime


def set_engine(conn: Connection, topic: str, engine: Engine, *, namespace: str | None = None) -> bool:
    """Moves a topic to an engine, after the running batch; the other engine continues from there. False: it was there already.

    Raises UnknownTopic, Invalid."""
    statement = "select headrace.set_engine(p_topic => %s, p_engine => %s, p_namespace => %s)"
    with map_database_errors():
        row = conn.execute(statement, (topic, engine, namespace)).fetchone()
    assert row is not None
    return bool(row[0])


def list_pipelines(conn: Connection, *, topic: str | None = None, namespace: str | None = None) -> list[PipelineState]:
    """The pipelines of a namespace, by topic, including those that ended."""
    with map_database_errors(), conn.cursor(row_factory=class_row(PipelineState)) as cursor:
        return cursor.execute(query("spark/pipeline_states"), {"topic": topic, "namespace": namespace}).fetchall()


def list_batches(conn: Connection, topic: str, *, limit: int = 20, namespace: str | None = None) -> list[LedgerRow]:
    """The newest batches of a topic's pipeline, the newest first. Raises UnknownTopic."""
    parameters = {"topic": topic, "namespace": namespace, "limit": limit}
    with map_database_errors(), conn.cursor(row_factory=class_row(LedgerRow)) as cursor:
        return cursor.execute(query("spark/pipeline_batches"), parameters).fetchall()
