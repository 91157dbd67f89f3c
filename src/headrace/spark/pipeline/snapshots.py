"""Snapshots: the state of the consumers of a topic's rules and correlators, and the active versions they run."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Connection, query
from headrace.lang.ecl import from_json
from headrace.spark.correlate import CorrelatorSpec
from headrace.spark.match import RuleSpec


@dataclass(frozen=True)
class TopicHead:
    """A topic, its engine, and the newest position of its log."""

    topic_id: int
    engine: str
    head: int


@dataclass(frozen=True)
class ConsumerSnapshot:
    """The internal consumer of all rules of a topic (no correlator_id), or of one correlator.

    Two equal snapshots mean that nothing has happened in between: `mark` changes with every move of the cursor."""

    consumer_id: int
    correlator_id: int | None
    version_id: int
    position: int
    single_to: int
    mark: str
    simple: bool
    ready: bool


def read_topic(conn: Connection, topic: str, namespace: str | None) -> TopicHead:
    """Raises UnknownTopic."""
    with conn.cursor(row_factory=class_row(TopicHead)) as cursor:
        head = cursor.execute(query("spark/pipeline/topic"), {"topic": topic, "namespace": namespace}).fetchone()
    assert head is not None
    return head


def read_snapshots(conn: Connection, topic_id: int) -> list[ConsumerSnapshot]:
    with conn.cursor(row_factory=class_row(ConsumerSnapshot)) as cursor:
        return cursor.execute(query("spark/pipeline/consumers"), {"topic_id": topic_id}).fetchall()


class ActiveVersions:
    """The rules and correlators of the active versions, read once per version."""

    def __init__(self, topic_id: int) -> None:
        self._topic_id = topic_id
        self._rules: tuple[int, tuple[RuleSpec, ...]] | None = None
        self._correlators: dict[int, tuple[int, CorrelatorSpec]] = {}

    def rules(self, conn: Connection, snapshot: ConsumerSnapshot) -> tuple[RuleSpec, ...]:
        """The topic's rules, each named by its version_id."""
        if self._rules is None or self._rules[0] != snapshot.version_id:
            rows = conn.execute(query("spark/pipeline/rules"), {"topic_id": self._topic_id}).fetchall()
            specs = tuple(
                RuleSpec(name=str(version_id), event_type=type_, condition=condition, action=action, since_offset=since)
                for version_id, type_, condition, action, since in rows
            )
            self._rules = (snapshot.version_id, specs)
        return self._rules[1]

    def correlator(self, conn: Connection, snapshot: ConsumerSnapshot) -> CorrelatorSpec | None:
        """The version of the snapshot's correlator; None if another version is active by now."""
        assert snapshot.correlator_id is not None
        cached = self._correlators.get(snapshot.correlator_id)
        if cached is None or cached[0] != snapshot.version_id:
            parameters = {"correlator_id": snapshot.correlator_id, "version_id": snapshot.version_id}
            row = conn.execute(query("spark/pipeline/correlator"), parameters).fetchone()
            if row is None:
                return None
            name, version, pattern, key, compiled, evidence_max, forgets = row
            spec = CorrelatorSpec(
                name=name, version=version, pattern=pattern, key=key,
                compiled=from_json(compiled), evidence_max=evidence_max, forgets=forgets,
            )  # fmt: skip
            cached = self._correlators[snapshot.correlator_id] = (snapshot.version_id, spec)
        return cached[1]
