"""Correlators: what they are, and how they are written and read. The table headrace.correlator is the truth; this is its face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headrace.core import CorrelatorExists, FeedbackLoop, UnknownCorrelator, encode
from headrace.correlators.carrying import Carried, carrying
from headrace.correlators.feedback import Link, feedback, links_in, links_of
from headrace.correlators.outputs import Output, encode_outputs, read_outputs
from headrace.db import Connection, map_database_errors, query
from headrace.definitions import state_row
from headrace.lang.condition import parse_scalar
from headrace.lang.ecl import Pattern, Table, compile, from_json, parse


@dataclass(frozen=True, kw_only=True)
class Correlator:
    """An ECL pattern over a topic: one machine per key, and what its tokens become."""

    name: str
    topic: str
    pattern: str
    outputs: Mapping[str, Output] = field(default_factory=dict)
    key: str | None = None
    """A value of the condition language, such as `object ->> 'account'` or `key`. None: one machine for the whole topic."""
    forget_after: timedelta | None = None
    evidence_max: int = 100
    active: bool = True
    allow_feedback: bool = False


@dataclass(frozen=True)
class CorrelatorState:
    """A correlator as it stands: its status, its error, from which position it is in force, and what became of its keys."""

    correlator: Correlator
    correlator_id: int
    version_id: int
    namespace: str
    source: str
    version: int
    status: str
    error: str | None
    warning: str | None
    since_position: int | None
    carried: int | None
    restarted: int | None
    written_at: datetime
    written_by: str


def create_correlator(conn: Connection, correlator: Correlator, *, namespace: str | None = None, source: str = "sql") -> int:
    """Writes a new correlator and returns its id.

    Before anything is written: PatternError, ConditionError, FeedbackLoop. CorrelatorExists, UnknownTopic, UnknownName."""
    _checked(conn, correlator, namespace)
    with map_database_errors():
        given = _parameters(correlator, namespace, source, restart=False)
        row = conn.execute(query("correlators/create_correlator"), given).fetchone()
    if row is None:
        raise CorrelatorExists(f"correlator {correlator.name!r} is already there; change it, or choose another name")
    return int(row[0])


def alter_correlator(
    conn: Connection, correlator: Correlator, *, namespace: str | None = None, source: str = "sql", restart: bool = False
) -> Carried:
    """Gives the correlator of this name a new definition, and says what that means for its keys as they stand now.

    A key whose state is provably equivalent to one of the new pattern goes on from there; the others start afresh with their
    next event; with `restart` all do. What it came to is in `list_correlators`. Raises as create_correlator does, and
    UnknownCorrelator."""
    pattern = _checked(conn, correlator, namespace)
    told = _carried(conn, correlator, compile(pattern), namespace, restart)
    with map_database_errors():
        given = _parameters(correlator, namespace, source, restart=restart)
        changed = conn.execute(query("correlators/alter_correlator"), given).rowcount
    if not changed:
        raise _unknown(conn, correlator.name, namespace)
    return told


def drop_correlator(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Deletes a correlator with the state of its keys; versions and outputs stay on record. Raises UnknownCorrelator."""
    with map_database_errors():
        given = {"correlator": name, "namespace": namespace}
        dropped = conn.execute(query("correlators/drop_correlator"), given).rowcount
    if not dropped:
        raise _unknown(conn, name, namespace)


def list_correlators(
    conn: Connection, *, topic: str | None = None, name: str | None = None, namespace: str | None = None
) -> list[CorrelatorState]:
    """The correlators of a namespace with their state, by name: all, those of a topic, or the one named."""
    with map_database_errors(), conn.cursor(row_factory=state_row(Correlator, _state)) as cursor:
        given = {"topic": topic, "correlator": name, "namespace": namespace}
        return cursor.execute(query("correlators/correlators"), given).fetchall()


def get_correlator(conn: Connection, name: str, *, namespace: str | None = None) -> CorrelatorState:
    """The correlator of this name. Raises UnknownCorrelator."""
    found = list_correlators(conn, name=name, namespace=namespace)
    if not found:
        raise _unknown(conn, name, namespace)
    return found[0]


def parse_texts(correlator: Correlator) -> Pattern:
    """The pattern, once the key has been looked at too. Raises PatternError, ConditionError."""
    pattern = parse(correlator.pattern)
    if correlator.key is not None:
        parse_scalar(correlator.key)
    return pattern


def _checked(conn: Connection, correlator: Correlator, namespace: str | None) -> Pattern:
    pattern = parse_texts(correlator)
    if correlator.active and not correlator.allow_feedback:
        links = links_of(correlator.name, correlator.topic, compile(pattern), encode_outputs(correlator.outputs))
        loop = feedback(links, _other_links(conn, correlator.name, namespace))
        if loop is not None:
            raise FeedbackLoop(loop)
    return pattern


def _other_links(conn: Connection, name: str, namespace: str | None) -> list[Link]:
    with map_database_errors():
        rows = conn.execute(query("correlators/other_correlators"), {"correlator": name, "namespace": namespace}).fetchall()
    return links_in(rows)


def _carried(conn: Connection, correlator: Correlator, table: Table, namespace: str | None, restart: bool) -> Carried:
    given = {"correlator": correlator.name, "namespace": namespace}
    with map_database_errors():
        before = conn.execute(query("correlators/running_table"), given).fetchone()
        counts = conn.execute(query("correlators/instance_counts"), given).fetchall()
    total = sum(count for _, count in counts)
    if before is None or restart or not correlator.active or before[1] != correlator.key:
        return Carried(0, total)
    goes_on = carrying(correlator.name, from_json(before[0]), table)
    carried = total if goes_on is None else sum(count for units, count in counts if tuple(units) in goes_on.units)
    return Carried(carried, total - carried)


def _state(correlator: dict[str, Any], rest: dict[str, Any]) -> CorrelatorState:
    outputs = read_outputs(correlator.pop("outputs"))
    return CorrelatorState(correlator=Correlator(**correlator, outputs=outputs), **rest)


def _parameters(
    correlator: Correlator, namespace: str | None, source: str, *, restart: bool
) -> dict[str, str | int | bool | bytes | timedelta | None]:
    plain = {name: getattr(correlator, name) for name in Correlator.__dataclass_fields__ if name != "outputs"}
    return {
        **plain,
        "outputs": encode(encode_outputs(correlator.outputs)),
        "namespace": namespace,
        "source": source,
        "restart": restart,
    }


def _unknown(conn: Connection, name: str, namespace: str | None) -> UnknownCorrelator:
    known = ", ".join(state.correlator.name for state in list_correlators(conn, namespace=namespace)[:10])
    return UnknownCorrelator(f"there is no correlator {name!r}; known correlators: {known or 'none'}")
