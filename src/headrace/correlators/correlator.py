"""Correlators: create, alter, drop, list, and read from files. The table headrace.correlator holds them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, cast

from msgspec.structs import replace

from headrace.core import FeedbackLoop, Invalid, UnknownCorrelator, encode
from headrace.correlators.feedback import feedback, links_in, links_of
from headrace.correlators.outputs import Output, check_tokens, encode_outputs, read_outputs
from headrace.db import Connection, map_database_errors, query
from headrace.definitions import DefinitionKind, StoredDefinition, load_definitions, state_row
from headrace.definitions.schemas import check_definition
from headrace.lang.condition import parse_scalar
from headrace.lang.ecl import (
    Budget,
    Pattern,
    PatternError,
    StateLimitExceeded,
    StateMapping,
    Table,
    compare,
    compile,
    describe_relation,
    equivalent_states,
    from_json,
    parse,
    pushed_tokens,
    typed_conditions,
)

logger = logging.getLogger(__name__)

COMPARISON_MAX = 2_000
"""Configurations that a plan looks at to say what a change of a pattern means."""


@dataclass(frozen=True, kw_only=True)
class Correlator:
    """An ECL pattern over a topic: one machine per key, and the outputs of its tokens."""

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
    """A correlator with its state: status, error, the position since which its version is active, and what happened to its keys."""

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
    paused: bool = False


@dataclass(frozen=True)
class KeyEffect:
    """What a change means for the keys: how many continue from their state, and how many start afresh."""

    carried: int
    restarted: int


def create_correlator(conn: Connection, correlator: Correlator, *, namespace: str | None = None, source: str = "sql") -> int:
    """Creates a correlator and returns its id.

    Raises PatternError, ConditionError, InvalidOutputs and FeedbackLoop before anything is written; CorrelatorExists, UnknownTopic, UnregisteredName."""
    _check(conn, correlator, namespace)
    with map_database_errors():
        parameters = _parameters(correlator, namespace, source, restart=False)
        row = conn.execute(query("correlators/create_correlator"), parameters).fetchone()
    assert row is not None
    return int(row[0])


def alter_correlator(
    conn: Connection, correlator: Correlator, *, namespace: str | None = None, source: str = "sql", restart: bool = False
) -> KeyEffect:
    """Gives the correlator of this name a new definition, and says what that means for its keys in their present state.

    A key whose state is provably equivalent to a state of the new pattern continues from there; the others start afresh with
    their next event; with `restart` all do. `list_correlators` shows the final numbers. Raises as create_correlator does, and
    UnknownCorrelator."""
    effect = _effect(conn, correlator, compile(_check(conn, correlator, namespace)), namespace, restart)
    with map_database_errors():
        parameters = _parameters(correlator, namespace, source, restart=restart)
        changed = conn.execute(query("correlators/alter_correlator"), parameters).rowcount
    if not changed:
        raise _unknown(conn, correlator.name, namespace)
    return effect


def drop_correlator(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Drops a correlator with the state of its keys; versions and outputs stay on record. Raises UnknownCorrelator."""
    with map_database_errors():
        parameters = {"correlator": name, "namespace": namespace}
        dropped = conn.execute(query("correlators/drop_correlator"), parameters).rowcount
    if not dropped:
        raise _unknown(conn, name, namespace)


def list_correlators(
    conn: Connection, *, topic: str | None = None, name: str | None = None, namespace: str | None = None
) -> list[CorrelatorState]:
    """The correlators of a namespace with their state, by name: all, those of a topic, or the one named."""
    with map_database_errors(), conn.cursor(row_factory=state_row(Correlator, _state)) as cursor:
        parameters = {"topic": topic, "correlator": name, "namespace": namespace}
        return cursor.execute(query("correlators/correlators"), parameters).fetchall()


def get_correlator(conn: Connection, name: str, *, namespace: str | None = None) -> CorrelatorState:
    """The correlator of this name. Raises UnknownCorrelator."""
    states = list_correlators(conn, name=name, namespace=namespace)
    if not states:
        raise _unknown(conn, name, namespace)
    return states[0]


def parse_texts(correlator: Correlator) -> Pattern:
    """The pattern, after a check of the key and of the outputs' tokens. Raises PatternError, ConditionError, InvalidOutputs."""
    pattern = parse(correlator.pattern)
    check_tokens(correlator.outputs, pushed_tokens(pattern))
    if correlator.key is not None:
        parse_scalar(correlator.key)
    return pattern


def outputs_of_pattern(correlator: Correlator) -> dict[str, Output]:
    """The outputs whose tokens the pattern pushes. Raises PatternError."""
    tokens = pushed_tokens(parse(correlator.pattern))
    return {token: output for token, output in correlator.outputs.items() if token in tokens}


def _check(conn: Connection, correlator: Correlator, namespace: str | None) -> Pattern:
    pattern = parse_texts(correlator)
    if correlator.active and not correlator.allow_feedback:
        links = links_of(correlator.name, correlator.topic, compile(pattern), encode_outputs(correlator.outputs))
        parameters = {"correlator": correlator.name, "namespace": namespace}
        with map_database_errors():
            others = links_in(conn.execute(query("correlators/other_correlators"), parameters).fetchall())
        loop = feedback(links, others)
        if loop is not None:
            raise FeedbackLoop(loop)
    check_definition(conn, f"correlator {correlator.name}", typed_conditions(pattern), namespace=namespace)
    return pattern


def _effect(conn: Connection, correlator: Correlator, table: Table, namespace: str | None, restart: bool) -> KeyEffect:
    parameters = {"correlator": correlator.name, "namespace": namespace}
    with map_database_errors():
        before = conn.execute(query("correlators/running_table"), parameters).fetchone()
        counts = conn.execute(query("correlators/instance_counts"), parameters).fetchall()
    total = sum(count for _, count in counts)
    if before is None or restart or not correlator.active or before[1] != correlator.key:
        return KeyEffect(0, total)
    try:
        mapping = map_states(from_json(before[0]), table)
    except StateLimitExceeded as error:
        logger.warning("correlator %s: all keys start afresh: %s", correlator.name, error)
        mapping = StateMapping({}, ())
    carried = total if mapping is None else sum(count for units, count in counts if tuple(units) in mapping.units)
    return KeyEffect(carried, total - carried)


def map_states(old: Table, new: Table, *, budget: Budget | None = None) -> StateMapping | None:
    """Which state continues as which; None: the tables are equal, so every state continues as itself.

    Raises StateLimitExceeded if they are too large to compare; then all keys start afresh."""
    if replace(old, pattern="") == replace(new, pattern=""):
        return None
    return equivalent_states(old, new, budget=budget)


def _state(correlator: dict[str, Any], rest: dict[str, Any]) -> CorrelatorState:
    outputs = read_outputs(correlator.pop("outputs"))
    return CorrelatorState(correlator=Correlator(**correlator, outputs=outputs), **rest)


def _parameters(
    correlator: Correlator, namespace: str | None, source: str, *, restart: bool
) -> dict[str, str | int | bool | bytes | timedelta | None]:
    fields = {name: getattr(correlator, name) for name in Correlator.__dataclass_fields__}
    outputs = encode(encode_outputs(correlator.outputs))
    return fields | {"outputs": outputs, "namespace": namespace, "source": source, "restart": restart}


def _unknown(conn: Connection, name: str, namespace: str | None) -> UnknownCorrelator:
    known = ", ".join(state.correlator.name for state in list_correlators(conn, namespace=namespace)[:10])
    return UnknownCorrelator(f"there is no correlator {name!r}; known correlators: {known or 'none'}")


class CorrelatorKind(DefinitionKind[Correlator]):
    """Correlators as a kind of definition; every shard has all of them. A file writes `forget_after` as `30 days` or P30D (ISO 8601)."""

    noun = "correlator"
    type = Correlator
    usual_fields = "name, topic, pattern, outputs"
    readers: ClassVar = {"outputs": lambda outputs: read_outputs(outputs or {})}

    def check(self, definition: Correlator) -> None:
        parse_texts(definition)

    def summary(self, definition: Correlator) -> str:
        return f"{definition.topic}: {' '.join(definition.pattern.split())} → {', '.join(definition.outputs)}"

    def meaning(self, before: Correlator, after: Correlator) -> str | None:
        """Whether the new pattern outputs less or more, with a shortest sequence of events that shows it."""
        if before.pattern == after.pattern:
            return None
        try:
            comparison = compare(parse_texts(before), parse_texts(after), limit=COMPARISON_MAX)
        except PatternError as error:
            return error.problem
        except Invalid:
            # Too large to compare.
            return None
        return describe_relation(comparison)

    def list_stored(self, conn: Connection, namespace: str | None) -> list[StoredDefinition[Correlator]]:
        return [StoredDefinition(state.correlator, state.source) for state in list_correlators(conn, namespace=namespace)]

    def create(self, conn: Connection, definition: Correlator, *, namespace: str | None, source: str) -> None:
        create_correlator(conn, definition, namespace=namespace, source=source)

    def alter(
        self, conn: Connection, before: Correlator, after: Correlator, *, namespace: str | None, source: str, restart: bool
    ) -> Mapping[str, int]:
        """Where the topic differs, the old correlator is dropped and the new one starts without state."""
        if before.topic != after.topic:
            self.drop(conn, before.name, namespace=namespace)
            self.create(conn, after, namespace=namespace, source=source)
            return {}
        keys = alter_correlator(conn, after, namespace=namespace, source=source, restart=restart)
        return {"carried": keys.carried, "restarted": keys.restarted}

    def drop(self, conn: Connection, name: str, *, namespace: str | None) -> None:
        drop_correlator(conn, name, namespace=namespace)


CORRELATORS = CorrelatorKind()


def load_correlators(path: Path | str) -> tuple[Correlator, ...]:
    """The correlators of a file, checked. Raises InvalidDefinitionFile, InvalidOutputs, PatternError, ConditionError."""
    return cast(tuple[Correlator, ...], load_definitions(path, (CORRELATORS,)))
