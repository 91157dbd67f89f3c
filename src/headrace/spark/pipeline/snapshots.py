"""Standing: how the consumers of a topic's rules and correlators stand, and what each of them runs."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Connection, query
from headrace.lang.ecl import from_json
from headrace.spark import CorrelatorSpec, RuleSpec


@dataclass(frozen=True)
class TopicHead:
    """A topic, its engine, and the newest position of its log."""

    topic_id: int
    engine: str
    head: int


@dataclass(frozen=True)
class ConsumerSnapshot:
    """A reserved consumer: of all the topic's rules (no correlator_id), or of one correlator. Two looks at it that are equal mean
    that nothing has happened to it in between: `mark` changes with every move of its cursor."""

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
        found = cursor.execute(query("spark/pipeline/topic"), {"topic": topic, "namespace": namespace}).fetchone()
    assert found is not None
    return found


def read_standings(conn: Connection, topic_id: int) -> list[ConsumerSnapshot]:
    with conn.cursor(row_factory=class_row(ConsumerSnapshot)) as cursor:
        return cursor.execute(query("spark/pipeline/standing"), {"topic_id": topic_id}).fetchall()


class ActiveVersions:
    """What the versions in force say, read once per version."""

    def __init__(self, topic_id: int) -> None:
        self._topic_id = topic_id
        self._rules: tuple[int, tuple[RuleSpec, ...]] | None = None
        self._correlators: dict[int, tuple[int, CorrelatorSpec]] = {}

    def rules(self, conn: Connection, standing: ConsumerSnapshot) -> tuple[RuleSpec, ...]:
        """The rules; each goes by the number of its version."""
        if self._rules is None or self._rules[0] != standing.version_id:
            rows = conn.execute(query("spark/pipeline/rules"), {"topic_id": self._topic_id}).fetchall()
            specs = tuple(
                RuleSpec(name=str(version_id), event_type=type_, condition=condition, action=action, since_offset=since)
                for version_id, type_, condition, action, since in rows
            )
            self._rules = (standing.version_id, specs)
        return self._rules[1]

    def correlator(self, conn: Connection, standing: ConsumerSnapshot) -> CorrelatorSpec | None:
        """The correlator's version; None when it is another one by now."""
        assert standing.correlator_id is not None
        known = self._correlators.get(standing.correlator_id)
        if known is None or known[0] != standing.version_id:
            given = {"correlator_id": standing.correlator_id, "version_id": standing.version_id}
            row = conn.execute(query("spark/pipeline/correlator"), given).fetchone()
            if row is None:
                return None
            name, version, pattern, key, compiled, evidence_max, forgets = row
            spec = CorrelatorSpec(
                name=name, version=version, pattern=pattern, key=key,
                compiled=from_json(compiled), evidence_max=evidence_max, forgets=forgets,
            )  # fmt: skip
            known = self._correlators[standing.correlator_id] = (standing.version_id, spec)
        return known[1]
