"""Rules as a kind of definition: in files, plans and apply."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from headrace.db import Connection
from headrace.definitions import DefinitionKind, StoredDefinition, load_definitions
from headrace.lang.condition import parse
from headrace.rules.rule import Rule, alter_rule, create_rule, drop_rule, list_rules


class RuleKind(DefinitionKind[Rule]):
    """Rules; every shard has all of them."""

    noun = "rule"
    type = Rule
    usual_fields = "name, topic, event_type, condition, action"

    def check(self, definition: Rule) -> None:
        parse(definition.condition)

    def summary(self, definition: Rule) -> str:
        return f"{definition.topic}, {definition.event_type}: {definition.condition} → {definition.action}"

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
