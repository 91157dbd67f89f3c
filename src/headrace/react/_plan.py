"""Plans: what has to change so that the database has the rules of a file, shown first and applied then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.db import Connection
from headrace.react._rule import Rule, RuleState, alter_rule, create_rule, drop_rule, list_rules


@dataclass(frozen=True)
class Change:
    """A rule that is there with another definition, and the names of what differs."""

    before: RuleState
    after: Rule

    @property
    def differs(self) -> tuple[str, ...]:
        fields = Rule.__dataclass_fields__
        return tuple(name for name in fields if getattr(self.before.rule, name) != getattr(self.after, name))


@dataclass(frozen=True)
class Plan:
    """What `apply` will do. `drop` holds only rules that came from the same source before."""

    create: tuple[Rule, ...]
    change: tuple[Change, ...]
    drop: tuple[RuleState, ...]
    same: tuple[RuleState, ...]
    source: str
    namespace: str | None

    @property
    def empty(self) -> bool:
        return not (self.create or self.change or self.drop)


def plan(conn: Connection, rules: Sequence[Rule], *, source: str = "file", namespace: str | None = None) -> Plan:
    """Compares rules with those of the database. One of another source is taken over if its name is here, else left alone."""
    there = {state.rule.name: state for state in list_rules(conn, namespace=namespace)}
    wanted = {rule.name for rule in rules}
    known = [(there[rule.name], rule) for rule in rules if rule.name in there]
    is_same = [state.rule == rule and state.source == source for state, rule in known]
    return Plan(
        create=tuple(rule for rule in rules if rule.name not in there),
        change=tuple(Change(state, rule) for (state, rule), same in zip(known, is_same, strict=True) if not same),
        drop=tuple(state for name, state in there.items() if state.source == source and name not in wanted),
        same=tuple(state for (state, _), same in zip(known, is_same, strict=True) if same),
        source=source,
        namespace=namespace,
    )


def apply(conn: Connection, plan: Plan) -> None:
    """Does what the plan says, in one transaction. Raises where the database has changed since so that it cannot be done."""
    with conn.transaction():
        for state in plan.drop:
            drop_rule(conn, state.rule.name, namespace=plan.namespace)
        for change in plan.change:
            alter_rule(conn, change.after, namespace=plan.namespace, source=plan.source)
        for rule in plan.create:
            create_rule(conn, rule, namespace=plan.namespace, source=plan.source)
