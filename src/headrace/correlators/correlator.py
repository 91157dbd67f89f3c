"""Correlators: their fields, and what is special to them among the kinds of definitions. The table headrace.correlator holds them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, cast

from msgspec.structs import replace

from headrace.core import FeedbackLoop, Invalid, UnknownCorrelator
from headrace.correlators.feedback import feedback, links_in, links_of
from headrace.correlators.outputs import Output, check_tokens, describe_outputs, encode_outputs, read_outputs
from headrace.db import Connection, map_database_errors, query
from headrace.definitions import DefinitionKind, Field, load_definitions
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

    name: Annotated[str, Field("Name of the correlator.")]
    topic: Annotated[str, Field("Topic whose events it reads.", is_fixed=True)]
    key: Annotated[
        str | None, Field("What events are grouped by, such as key or object ->> 'account'.", unset="all events together")
    ] = None
    pattern: Annotated[
        str,
        Field(
            "ECL pattern.",
            hint="For example repeat {push(late) {sequential {order.placed, fail {within 2 h {order.paid}}}}}.",
            is_long=True,
        ),
    ]
    outputs: Annotated[
        Mapping[str, Output],
        Field(
            "The action or event that each token becomes.",
            is_json=True,
            read=read_outputs,
            write=encode_outputs,
            describe=describe_outputs,
        ),
    ] = field(default_factory=dict)
    forget_after: Annotated[
        timedelta | None, Field("Forget a key after so long without an event, such as '30 days'.", unset="never")
    ] = None
    evidence_max: Annotated[int, Field("Positions kept as evidence of an output.", title="positions of evidence")] = 100
    active: Annotated[bool, Field("Run the correlator.")] = True
    allow_feedback: Annotated[bool, Field("Allow outputs that lead back to this correlator.")] = False


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


@dataclass(frozen=True, kw_only=True)
class CorrelatorVersion(Correlator):
    """A version of a correlator, active from `since_position` to `until_position`, both included; never if the first is None.

    A correlator that was dropped and created again has a new `correlator_id`; `dropped` marks the version that is the drop."""

    correlator_id: int
    version: int
    dropped: bool
    written_at: datetime
    written_by: str
    status: str
    error: str | None
    warning: str | None
    since_position: int | None
    until_position: int | None
    carried: int | None
    restarted: int | None


@dataclass(frozen=True)
class KeyEffect:
    """What a change means for the keys: how many continue from their state, and how many start afresh."""

    carried: int
    restarted: int


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


def map_states(old: Table, new: Table, *, budget: Budget | None = None) -> StateMapping | None:
    """Which state continues as which; None: the tables are equal, so every state continues as itself.

    Raises StateLimitExceeded if they are too large to compare; then all keys start afresh."""
    if replace(old, pattern="") == replace(new, pattern=""):
        return None
    return equivalent_states(old, new, budget=budget)


class CorrelatorKind(DefinitionKind[Correlator, CorrelatorState, CorrelatorVersion]):
    """Correlators as a kind of definition; every shard has all of them."""

    noun = "correlator"
    definition_type = Correlator
    state_type = CorrelatorState
    version_type = CorrelatorVersion
    unknown = UnknownCorrelator
    usual_fields = "name, topic, pattern, outputs"
    keeps_state = True
    is_recreated = True

    def check(self, definition: Correlator) -> None:
        parse_texts(definition)

    def check_in(self, conn: Connection, definition: Correlator, namespace: str | None) -> None:
        """Checks the texts, that no output leads back to the correlator unless that is allowed, and the schemas of the event types."""
        pattern = parse_texts(definition)
        if definition.active and not definition.allow_feedback:
            links = links_of(definition.name, definition.topic, compile(pattern), encode_outputs(definition.outputs))
            parameters = {"correlator": definition.name, "namespace": namespace}
            with map_database_errors():
                others = links_in(conn.execute(query("correlators/other_correlators"), parameters).fetchall())
            loop = feedback(links, others)
            if loop is not None:
                raise FeedbackLoop(loop)
        check_definition(conn, f"correlator {definition.name}", typed_conditions(pattern), namespace=namespace)

    def alter(
        self,
        conn: Connection,
        definition: Correlator,
        *,
        namespace: str | None = None,
        source: str = "sql",
        restart: bool = False,
    ) -> Mapping[str, int]:
        """As for every kind; returns how many keys are `carried` and how many `restarted`. With `restart` all are."""
        self.check_in(conn, definition, namespace)
        effect = self._effect(conn, definition, namespace, restart)
        self.update(conn, definition, namespace=namespace, source=source, restart=restart)
        return {"carried": effect.carried, "restarted": effect.restarted}

    def _effect(self, conn: Connection, definition: Correlator, namespace: str | None, restart: bool) -> KeyEffect:
        parameters = {"correlator": definition.name, "namespace": namespace}
        with map_database_errors():
            before = conn.execute(query("correlators/running_table"), parameters).fetchone()
            counts = conn.execute(query("correlators/instance_counts"), parameters).fetchall()
        total = sum(count for _, count in counts)
        if before is None or restart or not definition.active or before[1] != definition.key:
            return KeyEffect(0, total)
        try:
            mapping = map_states(from_json(before[0]), compile(parse(definition.pattern)))
        except StateLimitExceeded as error:
            logger.warning("correlator %s: all keys start afresh: %s", definition.name, error)
            mapping = StateMapping({}, ())
        carried = total if mapping is None else sum(count for units, count in counts if tuple(units) in mapping.units)
        return KeyEffect(carried, total - carried)

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


CORRELATORS = CorrelatorKind()

create_correlator = CORRELATORS.create
drop_correlator = CORRELATORS.drop
list_correlators = CORRELATORS.list_all
get_correlator = CORRELATORS.get
list_correlator_versions = CORRELATORS.versions


def alter_correlator(
    conn: Connection, correlator: Correlator, *, namespace: str | None = None, source: str = "sql", restart: bool = False
) -> KeyEffect:
    """Gives the correlator of this name a new definition, and says what that means for its keys in their present state.

    A key whose state is provably equivalent to a state of the new pattern continues from there; the others start afresh with
    their next event; with `restart` all do. `list_correlators` shows the final numbers. Raises as create_correlator does, and
    UnknownCorrelator."""
    return KeyEffect(**CORRELATORS.alter(conn, correlator, namespace=namespace, source=source, restart=restart))


def load_correlators(path: Path | str) -> tuple[Correlator, ...]:
    """The correlators of a file, checked. Raises InvalidDefinitionFile, InvalidOutputs, PatternError, ConditionError."""
    return cast(tuple[Correlator, ...], load_definitions(path, (CORRELATORS,)))
