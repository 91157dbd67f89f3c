"""Rules: their fields, and what is special to them among the kinds of definitions. The truth is the table headrace.rule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, cast

from headrace.core import UnknownRule
from headrace.db import Connection
from headrace.definitions import DefinitionKind, Field, load_definitions
from headrace.definitions.schemas import check_definition
from headrace.lang.condition import compare_conditions, describe_difference, parse


@dataclass(frozen=True, kw_only=True)
class Rule:
    """On an event of a type, if the condition is true, send an action with the event's payload and key."""

    name: Annotated[str, Field("Name of the rule.", example="large-order")]
    topic: Annotated[str, Field("Topic of the events.")]
    event_type: Annotated[str, Field("Type of the events.", example="order.placed")]
    action: Annotated[str, Field("Action to send.", example="REVIEW")]
    condition: Annotated[
        str,
        Field(
            "Condition on the event.",
            hint="A predicate over object (the payload), type, key, headers and emitted_at, such as (object ->> 'total')::int > 300. "
            "true fires on every event of the type.",
            is_long=True,
        ),
    ] = "true"
    priority: Annotated[int, Field("Priority of the action; higher is handled first.")] = 0
    delay_s: Annotated[int, Field("Delay of the action in seconds.")] = 0
    timing: Annotated[
        Literal["after", "inline"],
        Field(
            "Evaluate after the log, or inline in the publisher's transaction.",
            meanings=("after the log", "in the publisher's transaction"),
        ),
    ] = "after"
    active: Annotated[bool, Field("Evaluate the rule.")] = True


@dataclass(frozen=True)
class RuleState:
    """A rule with its status, its error, and the position from which this version is active."""

    rule: Rule
    namespace: str
    source: str
    version: int
    status: str
    error: str | None
    warning: str | None
    since_position: int | None
    written_at: datetime
    written_by: str
    paused: bool = False


@dataclass(frozen=True, kw_only=True)
class RuleVersion(Rule):
    """A version of a rule, active from `since_position` to `until_position`, both included; never if the first is None.

    A rule that was dropped and created again has a new `rule_id`; `dropped` marks the version that is the drop."""

    rule_id: int
    version: int
    dropped: bool
    written_at: datetime
    written_by: str
    status: str
    error: str | None
    since_position: int | None
    until_position: int | None


class RuleKind(DefinitionKind[Rule, RuleState, RuleVersion]):
    """Rules as a kind of definition; every shard has all of them."""

    noun = "rule"
    definition_type = Rule
    state_type = RuleState
    version_type = RuleVersion
    unknown = UnknownRule
    usual_fields = "name, topic, event_type, condition, action"

    def check(self, definition: Rule) -> None:
        parse(definition.condition)

    def check_in(self, conn: Connection, definition: Rule, namespace: str | None) -> None:
        """Checks the condition by itself, and against the schema of the event type."""
        self.check(definition)
        conditions = [(definition.event_type, definition.condition)]
        check_definition(conn, f"rule {definition.name}", conditions, namespace=namespace)

    def summary(self, definition: Rule) -> str:
        return f"{definition.topic}, {definition.event_type}: {definition.condition} → {definition.action}"

    def meaning(self, before: Rule, after: Rule) -> str | None:
        """Whether the new condition is stricter or looser, with an event that shows it."""
        if before.condition == after.condition:
            return None
        return describe_difference(compare_conditions(parse(before.condition), parse(after.condition)))


RULES = RuleKind()

create_rule = RULES.create
alter_rule = RULES.alter
drop_rule = RULES.drop
list_rules = RULES.list_all
get_rule = RULES.get
list_rule_versions = RULES.versions


def load_rules(path: Path | str) -> tuple[Rule, ...]:
    """The rules of a file, checked. Raises InvalidDefinitionFile, and ConditionError for an invalid condition."""
    return cast(tuple[Rule, ...], load_definitions(path, (RULES,)))
