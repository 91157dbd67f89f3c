"""Rules: create, alter, drop, list, and read from files. The truth is the table headrace.rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from psycopg.rows import class_row

from headrace.core import UnknownRule
from headrace.db import Connection, map_database_errors, query
from headrace.definitions import DefinitionKind, StoredDefinition, load_definitions, state_row
from headrace.definitions.schemas import check_definition
from headrace.lang.condition import compare_conditions, describe_difference, parse


@dataclass(frozen=True, kw_only=True)
class Rule:
    """On an event of a type, if the condition is true, send an action with the event's payload and key."""

    name: str
    topic: str
    event_type: str
    action: str
    condition: str = "true"
    priority: int = 0
    delay_s: int = 0
    timing: Literal["after", "inline"] = "after"
    """`after`: as a consumer of the log. `inline`: in the publisher's own transaction."""
    active: bool = True


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


@dataclass(frozen=True)
class RuleVersion:
    """A version of a rule, active from `since_position` to `until_position`, both included; never if the first is None.

    A rule that was dropped and created again has a new `rule_id`; `dropped` marks the version that is the drop."""

    rule_id: int
    version: int
    topic: str
    event_type: str
    condition: str
    action: str
    priority: int
    delay_s: int
    timing: str
    active: bool
    dropped: bool
    written_at: datetime
    written_by: str
    status: str
    error: str | None
    since_position: int | None
    until_position: int | None


def create_rule(conn: Connection, rule: Rule, *, namespace: str | None = None, source: str = "sql") -> int:
    """Creates a rule and returns its id. Raises ConditionError and SchemaFindings before anything is written, RuleExists, UnknownTopic."""
    _check(conn, rule, namespace)
    with map_database_errors():
        row = conn.execute(query("rules/create_rule"), _parameters(rule, namespace, source)).fetchone()
    assert row is not None
    return int(row[0])


def alter_rule(conn: Connection, rule: Rule, *, namespace: str | None = None, source: str = "sql") -> None:
    """Gives a rule a new definition. Raises ConditionError and SchemaFindings before anything is written, UnknownRule."""
    _check(conn, rule, namespace)
    with map_database_errors():
        changed = conn.execute(query("rules/alter_rule"), _parameters(rule, namespace, source)).rowcount
    if not changed:
        raise _unknown(conn, rule.name, namespace)


def drop_rule(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Deletes a rule; its versions and firings stay on record. Raises UnknownRule."""
    with map_database_errors():
        dropped = conn.execute(query("rules/drop_rule"), {"rule": name, "namespace": namespace}).rowcount
    if not dropped:
        raise _unknown(conn, name, namespace)


def list_rules(
    conn: Connection, *, topic: str | None = None, name: str | None = None, namespace: str | None = None
) -> list[RuleState]:
    """The rules of a namespace with their state, by name: all, those of a topic, or one."""
    with map_database_errors(), conn.cursor(row_factory=state_row(Rule, _state)) as cursor:
        parameters = {"topic": topic, "rule": name, "namespace": namespace}
        return cursor.execute(query("rules/rules"), parameters).fetchall()


def get_rule(conn: Connection, name: str, *, namespace: str | None = None) -> RuleState:
    """One rule with its state. Raises UnknownRule."""
    for state in list_rules(conn, name=name, namespace=namespace):
        return state
    raise _unknown(conn, name, namespace)


def list_rule_versions(conn: Connection, name: str, *, namespace: str | None = None) -> list[RuleVersion]:
    """All versions of a rule, oldest first, also of a dropped one. Raises UnknownRule if there never was one."""
    with map_database_errors(), conn.cursor(row_factory=class_row(RuleVersion)) as cursor:
        versions = cursor.execute(query("rules/versions"), {"rule": name, "namespace": namespace}).fetchall()
    if not versions:
        raise UnknownRule(f"there never was a rule {name!r}; see: headrace rule list")
    return versions


def _check(conn: Connection, rule: Rule, namespace: str | None) -> None:
    """Checks the condition by itself, and against the schema of the event type."""
    parse(rule.condition)
    check_definition(conn, f"rule {rule.name}", [(rule.event_type, rule.condition)], namespace=namespace)


def _state(rule: dict[str, Any], rest: dict[str, Any]) -> RuleState:
    return RuleState(rule=Rule(**rule), **rest)


def _parameters(rule: Rule, namespace: str | None, source: str) -> dict[str, str | int | bool | None]:
    return {**asdict(rule), "namespace": namespace, "source": source}


def _unknown(conn: Connection, name: str, namespace: str | None) -> UnknownRule:
    known = ", ".join(state.rule.name for state in list_rules(conn, namespace=namespace)[:10])
    return UnknownRule(f"there is no rule {name!r}; known rules: {known or 'none'}")


class RuleKind(DefinitionKind[Rule]):
    """Rules as a kind of definition; every shard has all of them."""

    noun = "rule"
    type = Rule
    usual_fields = "name, topic, event_type, condition, action"

    def check(self, definition: Rule) -> None:
        parse(definition.condition)

    def summary(self, definition: Rule) -> str:
        return f"{definition.topic}, {definition.event_type}: {definition.condition} → {definition.action}"

    def meaning(self, before: Rule, after: Rule) -> str | None:
        """Whether the new condition is stricter or looser, with an event that shows it."""
        if before.condition == after.condition:
            return None
        return describe_difference(compare_conditions(parse(before.condition), parse(after.condition)))

    def list_stored(self, conn: Connection, namespace: str | None) -> list[StoredDefinition[Rule]]:
        return [StoredDefinition(state.rule, state.source) for state in list_rules(conn, namespace=namespace)]

    def create(self, conn: Connection, definition: Rule, *, namespace: str | None, source: str) -> None:
        create_rule(conn, definition, namespace=namespace, source=source)

    def alter(
        self, conn: Connection, before: Rule, after: Rule, *, namespace: str | None, source: str, restart: bool
    ) -> Mapping[str, int]:
        alter_rule(conn, after, namespace=namespace, source=source)
        return {}

    def drop(self, conn: Connection, name: str, *, namespace: str | None) -> None:
        drop_rule(conn, name, namespace=namespace)


RULES = RuleKind()


def load_rules(path: Path | str) -> tuple[Rule, ...]:
    """The rules of a file, checked. Raises InvalidDefinitionFile, and ConditionError for an invalid condition."""
    return cast(tuple[Rule, ...], load_definitions(path, (RULES,)))
