"""Topics on Spark as the database records them: the engine and progress of each, and the state of its consumers for a batch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row, dict_row, kwargs_row

from headrace.db import Connection, map_database_errors, query
from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.lang.ecl import from_json

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


@dataclass(frozen=True)
class TopicHead:
    """A topic, its engine, and the newest position of its log."""

    topic_id: int
    engine: str
    head: int


@dataclass(frozen=True)
class ConsumerSnapshot:
    """The internal consumer of all rules of a topic (no correlator_id), or of one correlator.

    Two equal snapshots mean that nothing has happened in between: `mark` changes with every move of the cursor, `erasures` with every
    erasure, which takes data out of events and states."""

    consumer_id: int
    correlator_id: int | None
    version_id: int
    position: int
    single_to: int
    mark: str
    simple: bool
    erasures: int
    ready: bool


def read_topic(conn: Connection, topic: str, namespace: str | None) -> TopicHead:
    """Raises UnknownTopic."""
    with conn.cursor(row_factory=class_row(TopicHead)) as cursor:
        head = cursor.execute(query("spark/pipeline_topic"), {"topic": topic, "namespace": namespace}).fetchone()
    assert head is not None
    return head


def read_snapshots(conn: Connection, topic_id: int) -> list[ConsumerSnapshot]:
    with conn.cursor(row_factory=class_row(ConsumerSnapshot)) as cursor:
        return cursor.execute(query("spark/pipeline_consumers"), {"topic_id": topic_id}).fetchall()


class ActiveVersions:
    """The rules and correlators of the active versions, read once per version."""

    def __init__(self, topic_id: int) -> None:
        self._topic_id = topic_id
        self._rules: dict[int, tuple[RuleSpec, ...]] = {}
        self._correlators: dict[int, CorrelatorSpec] = {}

    def rules(self, conn: Connection, version_id: int) -> tuple[RuleSpec, ...]:
        """The topic's rules, each named by its version_id."""
        if version_id not in self._rules:
            with conn.cursor(row_factory=kwargs_row(RuleSpec)) as cursor:
                rules = cursor.execute(query("spark/pipeline_rules"), {"topic_id": self._topic_id}).fetchall()
            self._rules = {version_id: tuple(rules)}
        return self._rules[version_id]

    def correlator(self, conn: Connection, snapshot: ConsumerSnapshot) -> CorrelatorSpec | None:
        """The version of the snapshot's correlator; None if another version is active by now."""
        if snapshot.version_id not in self._correlators:
            parameters = {"correlator_id": snapshot.correlator_id, "version_id": snapshot.version_id}
            with conn.cursor(row_factory=dict_row) as cursor:
                row = cursor.execute(query("correlators/active_table"), parameters).fetchone()
            if row is None:
                return None
            self._correlators[snapshot.version_id] = CorrelatorSpec(**row | {"compiled": from_json(row["compiled"])})
        return self._correlators[snapshot.version_id]
