"""`headrace correlator`: ECL patterns that run over a topic, and the state of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from typer import Argument, BadParameter, Option

from headrace import correlators
from headrace.cli.definition import DefinitionGroup
from headrace.cli.ecl import register_words
from headrace.cli.output import Column, table
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownCorrelator, UnknownEvent, encode
from headrace.correlators import Correlator
from headrace.db import Connection, parse_time

STEPS_SHOWN = 20


def _outputs(actions: list[str] | None, events: list[str] | None) -> dict[str, correlators.Output]:
    """The options `--action TOKEN=NAME` and `--event TOKEN=TOPIC/TYPE`."""
    outputs: dict[str, correlators.Output] = {}
    for option in actions or ():
        token, _, action = option.partition("=")
        if not (token and action):
            raise BadParameter(f"{option!r} is not TOKEN=NAME", param_hint="--action")
        outputs[token] = correlators.ActionOutput(action=action)
    for option in events or ():
        token, _, target = option.partition("=")
        topic, _, type = target.partition("/")
        if not (token and topic and type):
            raise BadParameter(f"{option!r} is not TOKEN=TOPIC/TYPE", param_hint="--event")
        outputs[token] = correlators.EventOutput(event=type, topic=topic)
    return outputs


def _set_outputs(definition: Correlator, values: Mapping[str, Any], changed: set[str]) -> Correlator:
    """The options --action and --event add outputs, or replace those of their tokens."""
    # An output whose token a new pattern no longer pushes goes with the token; one that was asked for is checked.
    kept = correlators.outputs_of_pattern(definition) if "pattern" in changed else definition.outputs
    return replace(definition, outputs={**kept, **_outputs(values.get("action"), values.get("event"))})


Actions = Annotated[list[str] | None, Option("--action", metavar="TOKEN=NAME", help="Send the token as this action; repeatable.")]
Events = Annotated[
    list[str] | None, Option("--event", metavar="TOKEN=TOPIC/TYPE", help="Publish the token as this event; repeatable.")
]
group = DefinitionGroup(
    kind=correlators.CORRELATORS,
    help="Correlators: ECL patterns over a topic; their outputs become actions or events.",
    listed=("topic", "key", "pattern", "outputs"),
    loses=" and the state of its keys",
    options={"action": (Actions, None), "event": (Events, None)},
    options_set=("outputs",),
    apply_options=_set_outputs,
    texts={
        "create": """An invalid pattern is rejected with its line and column.

        Example: headrace correlator create fraud --topic bank --key "object ->> 'account'" --action alarm=CALL
        --pattern 'repeat {push(alarm) {within 10 min {sequential {login.failed, login.failed, transfer}}}}'""",
        "alter": """A key keeps its state if that is provably equivalent to a state of the new pattern; other keys restart with their
        next event.

        Example: headrace correlator alter fraud --pattern @fraud.ecl""",
        "drop": "Its versions and outputs stay on record.",
        "pause": "It stays at its position and misses nothing.",
    },
).build()
Name = Annotated[str, Argument(metavar="CORRELATOR", help="Name of the correlator.", show_default=False)]


@command(group, "outputs")
def outputs(
    session: Session,
    name: Name,
    key: Annotated[str | None, Option(help="Only this key.")] = None,
    limit: Annotated[int, Option(help="Show at most this many.")] = 20,
    payloads: Annotated[bool, Option("--payloads", help="Show the payloads of the evidence, too.")] = False,
) -> None:
    """Show the newest outputs of a correlator with their evidence."""
    outputs = session.collect(session.bind(correlators.list_correlations, name, key=key, limit=limit, payloads=payloads))
    position = ("position", lambda output: output.position or "timer")
    evidence = ("evidence", lambda output: _positions(output.evidence))
    columns: list[Column] = [("at", "output_at"), "key", "token", position, ("became", "name"), evidence, "version"]
    if any(output.captured for _, output in outputs):
        columns.append(("captured", lambda output: register_words(output.captured or {})))
    if payloads:
        columns.append(("payloads", _payloads))
    session.show(columns, outputs)


def _payloads(output: correlators.PastOutput) -> str:
    return "\n".join(f"{event.position} {event.type} {encode(event.payload)}" for event in output.events or ())


@command(group, "state")
def state(
    session: Session,
    name: Name,
    key: Annotated[str, Option(help="The key.", show_default="the only one, without a key")] = "",
) -> None:
    """Show the state of a key, and the shortest way to its next output.

    It also shows the events and timers that the key waits for.

    Example: headrace correlator state fraud --key c3
    """
    states = session.collect(lambda conn: [correlators.key_state(conn, name, key, namespace=session.namespace)])
    running = [(target, state) for target, state in states if state is not None]
    if not running:
        raise UnknownCorrelator(f"no version of correlator {name!r} is active yet; run a node, and see: headrace correlator list")
    # Only the shard with the events of a key knows the key.
    known = [(target, state) for target, state in running if state.known] or running[:1]
    tables = [facts_table(f"correlator {name}", target, _state_facts(state)) for target, state in known]
    facts = [
        {"shard": target.name, **msgspec.to_builtins(replace(state, shortest=None))}
        | {"waits_for": list(state.waits_for.events), "shortest": None if state.shortest is None else str(state.shortest)}
        for target, state in known
    ]
    session.print(facts, *tables)


@command(group, "why-not")
def why_not(
    session: Session,
    name: Name,
    key: Annotated[str, Option(help="The key.", show_default="the only one, without a key")] = "",
    since: Annotated[
        str | None, Option(help="Only events since this time.", show_default="the newest 100 000 of the topic")
    ] = None,
    token: Annotated[str | None, Option(help="Why not this token.", show_default="any")] = None,
) -> None:
    """Show why a key has no output: its events, and the smallest change that would have led to one.

    A change is one event: a condition with another answer, an event that came too late, that is missing, or that should not be there.
    Each was tried on a copy of the key's events.

    Example: headrace correlator why-not fraud --key c3
    """

    def explain(conn: Connection) -> correlators.WhyNot:
        moment = parse_time(conn, since) if since is not None else None
        return correlators.explain_silence(conn, name, key, since=moment, token=token, namespace=session.namespace)

    # Only one shard has the events of a key.
    target, answer = session.find(UnknownEvent, explain)
    pushed: Column = ("outputs", lambda step: ", ".join(step.outputs) or ".")
    where: Column = ("at position", lambda change: change.position or "the end")
    session.print(
        {"shard": target.name} | msgspec.to_builtins(answer),
        table(["position", ("event", "type"), "at", "moved", pushed, "status"], answer.steps[-STEPS_SHOWN:]),
        f"{answer.outputs} outputs on {len(answer.steps)} events" if answer.outputs else "no output on these events",
        table([where, ("change", "text"), ("would push", "token")], answer.changes)
        if answer.changes
        else "no single change would lead to an output",
    )


def _state_facts(state: correlators.KeyState) -> dict[str, object]:
    return {
        "key": state.key,
        "status": state.status.value if state.known else f"{state.status.value}; no event has changed it yet",
        "started at": state.started_at,
        "last event at": state.seen_at,
        "evidence": _positions(state.evidence),
        "waits for": ", ".join(state.waits_for.events) or "nothing",
        "timers": ", ".join(str(at) for at in state.deadlines) or "none",
        "next output after": "it cannot produce any more output" if state.shortest is None else str(state.shortest),
        "outputs so far": state.pushed,
        **({"registers": _registers(state)} if any(state.captured) else {}),
        **({"instances": len(state.captured)} if len(state.captured) > 1 else {}),
    }


def _registers(state: correlators.KeyState) -> str:
    return "; ".join(register_words(captured) or "nothing" for captured in state.captured)


def _positions(positions: Sequence[int]) -> str:
    return ", ".join(map(str, positions[:8])) + (", …" if len(positions) > 8 else "")
