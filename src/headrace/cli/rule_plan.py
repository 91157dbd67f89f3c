"""Plans of rules: made of a file, and shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.cli.output import console, json_line
from headrace.cli.session import Session
from headrace.db import Target
from headrace.rules import RulePlan, load_rules, plan


def plans_of(session: Session, file: Path, source: str | None) -> list[tuple[Target, RulePlan]]:
    """What every database lacks to have the rules of a file."""
    rules = load_rules(file)
    # By the file's name: two files must not drop each other's rules.
    source = source or file.name
    return [(target, plan(conn, rules, source=source, namespace=session.namespace)) for target, conn in session.shards()]


def print_plans(session: Session, plans: list[tuple[Target, RulePlan]]) -> None:
    """What would change, and how much of it."""
    if session.json:
        json_line([_plan_json(target, made) for target, made in plans])
        return
    if any(not made.empty for _, made in plans):
        rows = [(target, row) for target, made in plans for row in _plan_rows(made)]
        session.rows(["", "rule", "topic", "what", "now", "then"], rows)
    for target, made in plans:
        told = [(made.create, "to create"), (made.change, "to change"), (made.drop, "to drop"), (made.same, "the same")]
        counts = ", ".join(f"{len(some)} {what}" for some, what in told)
        console().print(f"{target.name}: {counts}" if len(plans) > 1 else counts)


def _plan_json(target: Target, made: RulePlan) -> dict[str, object]:
    return {
        "shard": target.name,
        "source": made.source,
        "create": [rule.name for rule in made.create],
        "change": [{"rule": change.after.name, "differs": change.differs or ("source",)} for change in made.change],
        "drop": [state.rule.name for state in made.drop],
        "same": [state.rule.name for state in made.same],
    }


def _plan_rows(made: RulePlan) -> Iterator[list[object]]:
    for rule in made.create:
        yield ["+", rule.name, rule.topic, "create", None, f"{rule.event_type}: {rule.condition} → {rule.action}"]
    for change in made.change:
        before, after = change.before.rule, change.after
        for field in change.differs:
            yield ["~", after.name, after.topic, field.replace("_", " "), getattr(before, field), getattr(after, field)]
        if change.before.source != made.source:
            yield ["~", after.name, after.topic, "source", change.before.source, made.source]
    for state in made.drop:
        rule = state.rule
        yield ["-", rule.name, rule.topic, "drop", f"{rule.event_type}: {rule.condition} → {rule.action}", None]
