"""`headrace correlator`: patterns of events that run over a topic, and where their keys stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from headrace.cli.definition import state_facts, status_and_remark
from headrace.cli.output import console, json_line, table
from headrace.cli.pattern import read_text
from headrace.cli.session import Session, command
from headrace.core import UnknownCorrelator
from headrace.correlators import (
    ActionOutput,
    Correlator,
    CorrelatorState,
    EventOutput,
    KeyState,
    Output,
    PastOutput,
    alter_correlator,
    create_correlator,
    drop_correlator,
    get_correlator,
    key_state,
    list_correlations,
    list_correlators,
)

group = typer.Typer(help="Correlators: ECL patterns over a topic; what they push becomes actions or events.")

Name = Annotated[str, typer.Argument(metavar="CORRELATOR", help="Name of the correlator.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Actions = Annotated[list[str] | None, typer.Option("--action", metavar="TOKEN=NAME", help="The token becomes an action.")]
Events = Annotated[
    list[str] | None, typer.Option("--event", metavar="TOKEN=TOPIC/TYPE", help="The token becomes an event on a topic.")
]
ForgetDays = Annotated[float | None, typer.Option(help="A key without events for so many days is forgotten.")]
AllowFeedback = Annotated[bool, typer.Option("--allow-feedback", help="Also where its own events lead back to it.")]


@command(group, "list")
def list_(
    session: Session,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only of this topic.", show_default=False)] = None,
) -> None:
    """List the correlators, each with its status: pending, valid or invalid."""
    found = session.found(lambda conn: list_correlators(conn, topic=topic, namespace=session.namespace))
    columns = ["correlator", "topic", "key", "pattern", "outputs", "version", "status", ""]
    session.show(columns, found, _row, facts=state_facts)


def _row(state: CorrelatorState) -> list[object]:
    own = state.correlator
    outputs = ", ".join(f"{token} → {_becomes(output)}" for token, output in own.outputs.items())
    return [own.name, own.topic, own.key, own.pattern, outputs, state.version, *status_and_remark(state)]


def _becomes(output: Output) -> str:
    return output.action if isinstance(output, ActionOutput) else f"{output.topic}/{output.event}"


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one correlator: its definition, its status, and how many keys went on when it last changed."""
    found = [(target, get_correlator(conn, name, namespace=session.namespace)) for target, conn in session.shards()]
    if session.json:
        json_line([{"shard": target.name} | state_facts(state) for target, state in found])
        return
    for target, state in found:
        facts = [(fact.replace("_", " "), value) for fact, value in state_facts(state).items()]
        console().print(table([f"correlator {name}", f"on {target}"], facts))


@command(group, "create")
def create(
    session: Session,
    name: Name,
    topic: Annotated[str, typer.Option(help="Topic it looks at.", show_default=False)],
    pattern: Annotated[str, typer.Option(help="ECL, or @FILE.", show_default=False)],
    key: Annotated[
        str | None, typer.Option(help="Which events belong together, such as key or object ->> 'account'.", show_default="all")
    ] = None,
    action: Actions = None,
    event: Events = None,
    forget_days: ForgetDays = None,
    evidence_max: Annotated[int, typer.Option(help="Positions kept as evidence of an output.")] = 100,
    allow_feedback: AllowFeedback = False,
) -> None:
    """Create a correlator, on every shard. A pattern that is none is refused, with the place of the mistake.

    Example: headrace correlator create fraud --topic bank --key "object ->> 'account'" --action alarm=CALL
    --pattern 'repeat {push(alarm) {within 10 min {sequential {login.failed, login.failed, transfer}}}}'
    """
    correlator = Correlator(
        name=name,
        topic=topic,
        pattern=read_text(pattern),
        key=key,
        outputs=_outputs(action, event),
        forget_after=_days(forget_days),
        evidence_max=evidence_max,
        allow_feedback=allow_feedback,
    )
    for _, conn in session.shards():
        create_correlator(conn, correlator, namespace=session.namespace)
    session.done(f"correlator {name} created; a running node puts it into force within a second", {"correlator": name})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    pattern: Annotated[str | None, typer.Option(help="ECL, or @FILE.")] = None,
    key: Annotated[str | None, typer.Option(help="Which events belong together.")] = None,
    action: Actions = None,
    event: Events = None,
    forget_days: ForgetDays = None,
    evidence_max: Annotated[int | None, typer.Option(help="Positions kept as evidence of an output.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--no-active", help="Whether it runs.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="All keys start afresh.")] = False,
    allow_feedback: AllowFeedback = False,
) -> None:
    """Change a correlator, on every shard; what is not named stays. Every change is a version.

    Keys whose state is provably equivalent to one of the new pattern go on from there; the others start afresh with their
    next event. It says how many of each.

    Example: headrace correlator alter fraud --pattern @fraud.ecl
    """
    given: dict[str, object] = {
        "pattern": None if pattern is None else read_text(pattern),
        "key": key,
        "forget_after": _days(forget_days),
        "evidence_max": evidence_max,
        "active": active,
        "allow_feedback": allow_feedback or None,
    }
    changed = {field: value for field, value in given.items() if value is not None}
    outputs = _outputs(action, event)
    if not changed and not outputs and not restart:
        raise typer.BadParameter("say what to change, such as --pattern")
    carried = restarted = 0
    for _, conn in session.shards():
        state = get_correlator(conn, name, namespace=session.namespace)
        after = replace(state.correlator, **changed, outputs={**state.correlator.outputs, **outputs})  # type: ignore[arg-type]
        told = alter_correlator(conn, after, namespace=session.namespace, source=state.source, restart=restart)
        carried, restarted = carried + told.carried, restarted + told.restarted
    session.done(
        f"correlator {name} changed: {carried} keys go on from where they stand, {restarted} start afresh",
        {"correlator": name, "carried": carried, "restarted": restarted},
    )


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a correlator with the state of its keys, on every shard. Its versions and what it pushed stay on record."""
    session.confirm(f"Drop correlator {name} and the state of its keys?", yes=yes)
    for _, conn in session.shards():
        drop_correlator(conn, name, namespace=session.namespace)
    session.done(f"correlator {name} dropped", {"correlator": name})


@command(group, "outputs")
def outputs(
    session: Session,
    name: Name,
    key: Annotated[str | None, typer.Option(help="Only of this key.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest.")] = 20,
) -> None:
    """Show what a correlator has pushed, the newest last, with the positions that led to it."""
    found = session.found(lambda conn: list_correlations(conn, name, key=key, limit=limit, namespace=session.namespace))
    columns = ["at", "key", "token", "position", "became", "evidence", "version"]
    session.show(columns, found, _output_row)


def _output_row(one: PastOutput) -> list[object]:
    return [one.output_at, one.key, one.token, one.position or "timer", one.name, _shown(one.evidence), one.version]


@command(group, "state")
def state(
    session: Session,
    name: Name,
    key: Annotated[str, typer.Option(help="The key.", show_default="the one of a correlator without key")] = "",
) -> None:
    """Show where a key stands, what it waits for, and the shortest sequence of events that would make it fire.

    Example: headrace correlator state fraud --key c3
    """
    found = [(target, key_state(conn, name, key, namespace=session.namespace)) for target, conn in session.shards()]
    running = [(target, one) for target, one in found if one is not None]
    if not running:
        raise UnknownCorrelator(f"no version of correlator {name!r} runs yet; start a node, and see: headrace correlator list")
    # A key lives on the shard of its events; the others know nothing of it.
    shown = [(target, one) for target, one in running if one.known] or running[:1]
    if session.json:
        json_line([{"shard": target.name} | _state_json(one) for target, one in shown])
        return
    for target, one in shown:
        console().print(table([f"correlator {name}", f"on {target}"], _state_facts(one)))


def _state_facts(one: KeyState) -> list[tuple[str, object]]:
    return [
        ("key", one.key),
        ("status", one.status.value if one.known else f"{one.status.value}; no event has moved it yet"),
        ("since", one.started_at),
        ("last event", one.seen_at),
        ("evidence", _shown(one.evidence)),
        ("waits for", ", ".join(one.waits_for.events) or "nothing"),
        ("timers", ", ".join(str(at) for at in one.deadlines) or "none"),
        ("fires after", "nothing can make it fire any more" if one.shortest is None else str(one.shortest)),
        ("pushed so far", one.pushed),
    ]


def _state_json(one: KeyState) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(replace(one, shortest=None))
    return shown | {"waits_for": list(one.waits_for.events), "shortest": None if one.shortest is None else str(one.shortest)}


def _shown(positions: Sequence[int]) -> str:
    return ", ".join(map(str, positions)) if len(positions) <= 8 else f"{', '.join(map(str, positions[:8]))}, …"


def _days(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _outputs(actions: list[str] | None, events: list[str] | None) -> dict[str, Output]:
    """`token=NAME` and `token=topic/type`, as they stand on the command line."""
    found: dict[str, Output] = {}
    for given in actions or ():
        token, is_there, action = given.partition("=")
        if not (token and is_there and action):
            raise typer.BadParameter(f"{given!r} is not TOKEN=NAME", param_hint="--action")
        found[token] = ActionOutput(action=action)
    for given in events or ():
        token, _, target = given.partition("=")
        topic, is_there, type = target.partition("/")
        if not (token and topic and is_there and type):
            raise typer.BadParameter(f"{given!r} is not TOKEN=TOPIC/TYPE", param_hint="--event")
        found[token] = EventOutput(event=type, topic=topic)
    return found
