"""Rules kept in a file, and the plan to get there. A file is taken whole or not at all; applying a plan is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.db import Connection
from headrace.definitions import FileKind, Plan, compare
from headrace.lang.condition import parse
from headrace.rules.rule import Rule, RuleState, alter_rule, create_rule, drop_rule, list_rules

RulePlan = Plan[Rule, RuleState]

_FILE = FileKind(
    noun="rule",
    type=Rule,
    usual="name, topic, event_type, condition, action",
    convert=lambda entry: msgspec.convert(entry, Rule),
    check=lambda rule: parse(rule.condition),
)


def load_rules(path: Path | str) -> tuple[Rule, ...]:
    """The rules of a file, checked. Raises BadRuleFile, and ConditionError for a condition that is none."""
    return _FILE.load(path)


def plan(conn: Connection, rules: Sequence[Rule], *, source: str = "file", namespace: str | None = None) -> RulePlan:
    """Compares rules with those of the database. One of another source is taken over if its name is here, else left alone."""
    there = [(state.rule, state) for state in list_rules(conn, namespace=namespace)]
    return compare(rules, there, source=source, namespace=namespace)


def apply(conn: Connection, plan: RulePlan) -> None:
    """Does what the plan says, in one transaction. Raises where the database has changed since so that it cannot be done."""
    with conn.transaction():
        for state in plan.drop:
            drop_rule(conn, state.rule.name, namespace=plan.namespace)
        for change in plan.change:
            alter_rule(conn, change.after, namespace=plan.namespace, source=plan.source)
        for rule in plan.create:
            create_rule(conn, rule, namespace=plan.namespace, source=plan.source)
