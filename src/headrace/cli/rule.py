"""`headrace rule`: rules turn events into actions."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Literal

import typer

from headrace.cli.definition import state_facts, status_and_remark
from headrace.cli.output import console, json_line, table
from headrace.cli.session import Session, command
from headrace.rules import (
    Rule,
    RuleState,
    RuleVersion,
    alter_rule,
    create_rule,
    drop_rule,
    get_rule,
    list_rule_versions,
    list_rules,
)

group = typer.Typer(help="Rules: on an event of a type, if a condition is true, send an action.")

Name = Annotated[str, typer.Argument(metavar="RULE", help="Name of the rule.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timing = Literal["after", "inline"]


@command(group, "list")
def list_(
    session: Session,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only rules on this topic.", show_default=False)] = None,
) -> None:
    """List the rules, each with its status: pending, valid or invalid."""
    states = session.collect(lambda conn: list_rules(conn, topic=topic, namespace=session.namespace))
    columns = ["rule", "topic", "event type", "condition", "action", "timing", "version", "status", ""]
    session.show(columns, states, _row, facts=state_facts)


def _row(state: RuleState) -> list[object]:
    rule = state.rule
    definition = [rule.name, rule.topic, rule.event_type, rule.condition, rule.action, rule.timing]
    return [*definition, state.version, *status_and_remark(state)]


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show a rule: its definition, its status, and the position from which it is active."""
    states = [(target, get_rule(conn, name, namespace=session.namespace)) for target, conn in session.shards()]
    if session.json:
        json_line([{"shard": target.name} | state_facts(state) for target, state in states])
        return
    for target, state in states:
        facts: list[tuple[str, object]] = [(name.replace("_", " "), value) for name, value in asdict(state.rule).items()][1:]
        facts += [(name.replace("_", " "), getattr(state, name)) for name in RuleState.__dataclass_fields__ if name != "rule"]
        console().print(table([f"rule {state.rule.name}", f"on {target}"], facts))


@command(group, "create")
def create(
    session: Session,
    name: Name,
    topic: Annotated[str, typer.Option(help="Topic of the events.", show_default=False)],
    event_type: Annotated[str, typer.Option(help="Type of the events.", show_default=False)],
    action: Annotated[str, typer.Option(help="Action to send.", show_default=False)],
    condition: Annotated[str, typer.Option(help="Condition on the event.")] = "true",
    priority: Annotated[int, typer.Option(help="Priority of the action; higher is handled first.")] = 0,
    delay_s: Annotated[int, typer.Option(help="Delay of the action in seconds.")] = 0,
    timing: Annotated[Timing, typer.Option(help="Evaluate after the log, or in the publisher's transaction.")] = "after",
    active: Annotated[bool, typer.Option(help="Evaluate the rule.")] = True,
) -> None:
    """Create a rule on every shard. An invalid condition is rejected with its line and column.

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
    session.done(f"rule {name} created; a running node activates it within a second", {"rule": name})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    topic: Annotated[str | None, typer.Option(help="Topic of the events.")] = None,
    event_type: Annotated[str | None, typer.Option(help="Type of the events.")] = None,
    action: Annotated[str | None, typer.Option(help="Action to send.")] = None,
    condition: Annotated[str | None, typer.Option(help="Condition on the event.")] = None,
    priority: Annotated[int | None, typer.Option(help="Priority of the action; higher is handled first.")] = None,
    delay_s: Annotated[int | None, typer.Option(help="Delay of the action in seconds.")] = None,
    timing: Annotated[Timing | None, typer.Option(help="Evaluate after the log, or in the publisher's transaction.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--no-active", help="Evaluate the rule.")] = None,
) -> None:
    """Change a rule on every shard; options that are not given stay as they are. Every change is a new version.

    Examples: headrace rule alter fast --condition "(object -> 'hp')::int > 900" · headrace rule alter fast --no-active
    """
    options = {
        "topic": topic,
        "event_type": event_type,
        "action": action,
        "condition": condition,
        "priority": priority,
        "delay_s": delay_s,
        "timing": timing,
        "active": active,
    }
    changed = {field: value for field, value in options.items() if value is not None}
    if not changed:
        raise typer.BadParameter("name what to change, for example --condition")
    for _, conn in session.shards():
        state = get_rule(conn, name, namespace=session.namespace)
        # The source stays as well: the rule still belongs to its file.
        alter_rule(conn, replace(state.rule, **changed), namespace=session.namespace, source=state.source)  # type: ignore[arg-type]
    session.done(f"rule {name} changed; a running node activates it within a second", {"rule": name, "changed": changed})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a rule on every shard. Its versions and firings stay on record."""
    session.confirm(f"Drop rule {name}?", yes=yes)
    for _, conn in session.shards():
        drop_rule(conn, name, namespace=session.namespace)
    session.done(f"rule {name} dropped", {"rule": name})


@command(group, "history")
def history(session: Session, name: Name) -> None:
    """Show all versions of a rule, also of a dropped one, and the positions on which each was active."""
    versions = session.collect(lambda conn: list_rule_versions(conn, name, namespace=session.namespace))
    columns = ["version", "written at", "by", "event type", "condition", "action", "status", "positions", "error"]
    session.show(columns, versions, _version_row)


def _version_row(version: RuleVersion) -> list[object]:
    status = "dropped" if version.dropped else version.status if version.active else f"{version.status}, not active"
    until = "now" if version.until_position is None else version.until_position
    positions = "none" if version.since_position is None else f"{version.since_position} to {until}"
    error = version.error.splitlines()[0] if version.error else None
    definition = [version.event_type, version.condition, version.action]
    return [version.version, version.written_at, version.written_by, *definition, status, positions, error]
