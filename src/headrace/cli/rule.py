"""`headrace rule`: rules turn events into actions."""

from __future__ import annotations

from dataclasses import asdict, replace
from operator import attrgetter
from typing import Annotated, Literal, TypedDict, Unpack
from uuid import UUID

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace.cli.changes import Changes
from headrace.cli.definition import STATE_COLUMNS, state_facts
from headrace.cli.options import OptionalTopic, Yes
from headrace.cli.output import Column, table
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownEvent
from headrace.observe.history import explain_rule
from headrace.rules import Rule, RuleVersion, alter_rule, create_rule, drop_rule, get_rule, list_rule_versions, list_rules

group = Typer(help="Rules: on an event of a type, if a condition is true, send an action.")

Name = Annotated[str, Argument(metavar="RULE", help="Name of the rule.", show_default=False)]
Timing = Literal["after", "inline"]


@command(group, "list")
def list_(session: Session, topic: OptionalTopic = None) -> None:
    """List rules with their status: pending, valid or invalid."""
    states = session.collect(lambda conn: list_rules(conn, topic=topic, namespace=session.namespace))
    fields = ("topic", "event_type", "condition", "action", "timing")
    definition = [(field.replace("_", " "), attrgetter(f"rule.{field}")) for field in fields]
    session.show([("rule", attrgetter("rule.name")), *definition, *STATE_COLUMNS], states, facts=state_facts)


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show the definition and the status of one rule, and the position from which it is active."""
    states = session.collect(lambda conn: [get_rule(conn, name, namespace=session.namespace)])
    tables = []
    for target, state in states:
        facts = asdict(state)
        definition = facts.pop("rule")
        tables.append(facts_table(f"rule {definition.pop('name')}", target, definition | facts))
    session.print([{"shard": target.name} | state_facts(state) for target, state in states], *tables)


class Options(TypedDict, total=False):
    """The options of `rule create` and `rule alter`."""

    topic: Annotated[str, Option(help="Topic of the events.", show_default=False)]
    event_type: Annotated[str, Option(help="Type of the events.", show_default=False)]
    action: Annotated[str, Option(help="Action to send.", show_default=False)]
    condition: Annotated[str, Option(help="Condition on the event.")]
    priority: Annotated[int, Option(help="Priority of the action; higher is handled first.")]
    delay_s: Annotated[int, Option(help="Delay of the action in seconds.")]
    timing: Annotated[Timing, Option(help="Evaluate after the log, or in the publisher's transaction.")]
    active: Annotated[bool, Option("--active/--no-active", help="Evaluate the rule.")]


@command(group, "create", defaults=Rule)
def create(session: Session, name: Name, **options: Unpack[Options]) -> None:
    """Create a rule, on every shard.

    An invalid condition is rejected with its line and column.

    Example: headrace rule create fast --topic cars --event-type NEW_CAR --action NOTIFY
    --condition "(object -> 'hp')::int > 1000"
    """
    rule = Rule(name=name, **options)
    session.on_every_shard(lambda conn: create_rule(conn, rule, namespace=session.namespace))
    session.done(f"rule {name} created; a running node activates it within a second", {"rule": name})


@command(group, "alter")
def alter(session: Session, name: Name, **changes: Unpack[Options]) -> None:
    """Change a rule, on every shard; each change is a new version.

    Options that you leave out keep their values.

    Examples: headrace rule alter fast --condition "(object -> 'hp')::int > 900" · headrace rule alter fast --no-active
    """
    if not changes:
        raise BadParameter("nothing to change; add an option such as --condition")
    compared = Changes(session)
    for target, conn in session.shards():
        state = get_rule(conn, name, namespace=session.namespace)
        rule = replace(state.rule, **changes)
        # The source stays as well: the rule still belongs to its file.
        alter_rule(conn, rule, namespace=session.namespace, source=state.source)
        compared.add(target, asdict(state.rule), asdict(rule))
    compared.done(f"rule {name} changed; a running node activates it within a second", {"rule": name, "changed": changes})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a rule, on every shard. Its versions and firings stay on record."""
    session.confirm(f"Drop rule {name}?", yes=yes)
    session.on_every_shard(lambda conn: drop_rule(conn, name, namespace=session.namespace))
    session.done(f"rule {name} dropped", {"rule": name})


@command(group, "why-not")
def why_not(
    session: Session,
    name: Name,
    event_id: Annotated[UUID, Argument(metavar="EVENT_ID", help="Id of the event.", show_default=False)],
) -> None:
    """Show why a rule did not fire on an event: the clauses that did not hold, with their values.

    Example: headrace rule why-not vip 01981f6c-0000-7000-8000-000000000000
    """
    target, answer = session.find(UnknownEvent, lambda conn: explain_rule(conn, name, event_id, namespace=session.namespace))
    values: Column = ("values", lambda clause: ", ".join(f"{part.text} = {part.value}" for part in clause.parts))
    session.print(
        {"shard": target.name} | msgspec.to_builtins(answer),
        f"rule {name}, event {event_id}: {answer.reason}",
        *([table([("clause", "text"), ("is", "value"), values], answer.failing)] if answer.failing else []),
    )


@command(group, "history")
def history(session: Session, name: Name) -> None:
    """Show all versions of a rule, with the positions for which each was active; also of a dropped rule."""
    versions = session.collect(lambda conn: list_rule_versions(conn, name, namespace=session.namespace))
    columns: list[Column] = ["version", "written_at", ("by", "written_by"), "event_type", "condition", "action"]
    error = ("error", lambda version: version.error.splitlines()[0] if version.error else None)
    session.show([*columns, ("status", _version_status), ("positions", _positions), error], versions)


def _version_status(version: RuleVersion) -> str:
    return "dropped" if version.dropped else version.status if version.active else f"{version.status}, not active"


def _positions(version: RuleVersion) -> str:
    until = "now" if version.until_position is None else version.until_position
    return "none" if version.since_position is None else f"{version.since_position} to {until}"
