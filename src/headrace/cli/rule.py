"""`headrace rule`: what turns events into actions, by hand or from a file."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.definition import state_facts, status_and_remark
from headrace.cli.output import console, json_line, table
from headrace.cli.rule_plan import plans_of, print_plans
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.rules import (
    Rule,
    RuleState,
    RuleVersion,
    alter_rule,
    apply,
    create_rule,
    drop_rule,
    get_rule,
    list_rule_versions,
    list_rules,
)

group = typer.Typer(help="Rules: on an event of a type, if a condition is true, an action is sent.")

Name = Annotated[str, typer.Argument(metavar="RULE", help="Name of the rule.", show_default=False)]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Rules in YAML or Python.", show_default=False)]
Source = Annotated[
    str | None, typer.Option(help="Whose rules these are; dropped are only its own.", show_default="the file's name")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timing = Literal["after", "inline"]


@command(group, "list")
def list_(
    session: Session,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only of this topic.", show_default=False)] = None,
) -> None:
    """List the rules, each with its status: pending, valid or invalid."""
    found = session.found(lambda conn: list_rules(conn, topic=topic, namespace=session.namespace))
    columns = ["rule", "topic", "event type", "condition", "action", "timing", "version", "status", ""]
    session.show(columns, found, _row, facts=state_facts)


def _row(state: RuleState) -> list[object]:
    rule = state.rule
    written = [rule.name, rule.topic, rule.event_type, rule.condition, rule.action, rule.timing]
    return [*written, state.version, *status_and_remark(state)]


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one rule: its definition, its status, and from which position it is in force."""
    found = [(target, get_rule(conn, name, namespace=session.namespace)) for target, conn in session.shards()]
    if session.json:
        json_line([{"shard": target.name} | state_facts(state) for target, state in found])
        return
    for target, state in found:
        facts: list[tuple[str, object]] = [(name.replace("_", " "), value) for name, value in asdict(state.rule).items()][1:]
        facts += [(name.replace("_", " "), getattr(state, name)) for name in RuleState.__dataclass_fields__ if name != "rule"]
        console().print(table([f"rule {state.rule.name}", f"on {target}"], facts))


@command(group, "create")
def create(
    session: Session,
    name: Name,
    topic: Annotated[str, typer.Option(help="Topic it looks at.", show_default=False)],
    event_type: Annotated[str, typer.Option(help="Event type it looks at.", show_default=False)],
    action: Annotated[str, typer.Option(help="Action it sends.", show_default=False)],
    condition: Annotated[str, typer.Option(help="When it fires.")] = "true",
    priority: Annotated[int, typer.Option(help="Of the action; higher is handled first.")] = 0,
    delay_s: Annotated[int, typer.Option(help="The action is handled so many seconds later.")] = 0,
    timing: Annotated[Timing, typer.Option(help="After the log, or in the publisher's transaction.")] = "after",
    active: Annotated[bool, typer.Option(help="Whether it is evaluated.")] = True,
) -> None:
    """Create a rule, on every shard. A condition that is none is refused, with the place of the mistake.

    Example: headrace rule create fast --topic cars --event-type NEW_CAR --action NOTIFY
    --condition "(object -> 'hp')::int > 1000"
    """
    rule = Rule(
        name=name,
        topic=topic,
        event_type=event_type,
        action=action,
        condition=condition,
        priority=priority,
        delay_s=delay_s,
        timing=timing,
        active=active,
    )
    for _, conn in session.shards():
        create_rule(conn, rule, namespace=session.namespace)
    session.done(f"rule {name} created; a running node puts it into force within a second", {"rule": name})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    topic: Annotated[str | None, typer.Option(help="Topic it looks at.")] = None,
    event_type: Annotated[str | None, typer.Option(help="Event type it looks at.")] = None,
    action: Annotated[str | None, typer.Option(help="Action it sends.")] = None,
    condition: Annotated[str | None, typer.Option(help="When it fires.")] = None,
    priority: Annotated[int | None, typer.Option(help="Of the action; higher is handled first.")] = None,
    delay_s: Annotated[int | None, typer.Option(help="The action is handled so many seconds later.")] = None,
    timing: Annotated[Timing | None, typer.Option(help="After the log, or in the publisher's transaction.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--no-active", help="Whether it is evaluated.")] = None,
) -> None:
    """Change a rule, on every shard; what is not named stays. Every change is a version.

    Examples: headrace rule alter fast --condition "(object -> 'hp')::int > 900" · headrace rule alter fast --no-active
    """
    given = {
        "topic": topic,
        "event_type": event_type,
        "action": action,
        "condition": condition,
        "priority": priority,
        "delay_s": delay_s,
        "timing": timing,
        "active": active,
    }
    changed = {field: value for field, value in given.items() if value is not None}
    if not changed:
        raise typer.BadParameter("say what to change, such as --condition")
    for _, conn in session.shards():
        state = get_rule(conn, name, namespace=session.namespace)
        # Its source stays too: a rule of a file is still the file's.
        alter_rule(conn, replace(state.rule, **changed), namespace=session.namespace, source=state.source)  # type: ignore[arg-type]
    session.done(f"rule {name} changed; a running node puts it into force within a second", {"rule": name, "changed": changed})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a rule, on every shard. Its versions and what it fired stay on record."""
    session.confirm(f"Drop rule {name}?", yes=yes)
    for _, conn in session.shards():
        drop_rule(conn, name, namespace=session.namespace)
    session.done(f"rule {name} dropped", {"rule": name})


@command(group, "history")
def history(session: Session, name: Name) -> None:
    """Show every version of a rule, also of a dropped one, and from which position to which it was in force."""
    found = session.found(lambda conn: list_rule_versions(conn, name, namespace=session.namespace))
    columns = ["version", "written at", "by", "event type", "condition", "action", "status", "in force", "error"]
    session.show(columns, found, _version_row)


def _version_row(one: RuleVersion) -> list[object]:
    status = "dropped" if one.dropped else one.status if one.active else f"{one.status}, not active"
    until = "now" if one.until_position is None else one.until_position
    in_force = "never" if one.since_position is None else f"{one.since_position} to {until}"
    written = [one.version, one.written_at, one.written_by]
    error = one.error.splitlines()[0] if one.error else None
    return [*written, one.event_type, one.condition, one.action, status, in_force, error]


@command(group, "plan")
def plan_(
    session: Session,
    file: File,
    source: Source = None,
    check: Annotated[bool, typer.Option("--check", help="Exit code 6 when something would change.")] = False,
) -> None:
    """Show what `apply` would change so that the database has the rules of a file. Changes nothing.

    A Python file is run as code, and has a list `rules`.

    Example: headrace rule plan rules.yaml
    """
    plans = plans_of(session, file, source)
    print_plans(session, plans)
    if check and any(not made.empty for _, made in plans):
        raise ProblemsFound(f"the rules differ from {file.name}; apply them: headrace rule apply {file}")


@command(group, "apply")
def apply_(session: Session, file: File, source: Source = None, yes: Yes = False) -> None:
    """Give the database the rules of a file, in one transaction per shard, after showing what changes.

    Rules of another source are left alone, unless the file has one of the same name, which it takes over.

    Example: headrace rule apply rules.yaml --yes
    """
    plans = plans_of(session, file, source)
    changes = any(not made.empty for _, made in plans)
    if not session.json:
        print_plans(session, plans)
    if changes:
        session.confirm("Apply these changes?", yes=yes)
        for (_, made), (_, conn) in zip(plans, session.shards(), strict=True):
            apply(conn, made)
    if session.json:
        print_plans(session, plans)
    elif changes:
        console().print(f"the rules of {file.name} are applied; a running node puts them into force within a second")
