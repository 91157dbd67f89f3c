"""`headrace relay`: relays deliver events to other systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, Unpack

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace.actions import pause, resume
from headrace.cli.changes import Changes
from headrace.cli.options import DryRun, From, OptionalTopic, To, Yes
from headrace.cli.output import Column, console, json_line, table
from headrace.cli.session import Session, command, facts_table
from headrace.consume import consumer_lag
from headrace.core import JSON, safe_lines
from headrace.db import Connection, Target
from headrace.relays import (
    Message,
    Relay,
    RelayBacktest,
    RelayState,
    RelayVersion,
    alter_relay,
    backtest_relay,
    create_relay,
    drop_relay,
    get_relay,
    list_relay_versions,
    list_relays,
    load_relays,
    seek_relay,
)

group = Typer(help="Relays: deliver the events of a topic to another system.")

Name = Annotated[str, Argument(metavar="RELAY", help="Name of the relay.", show_default=False)]
Format = Literal["stored", "cloudevents", "cloudevents-binary", "template"]
Exhausted = Literal["stop", "dead_letter"]
KeyOrder = Literal["hold", "skip"]
Start = Literal["earliest", "latest"]


@command(group, "list")
def list_(session: Session, topic: OptionalTopic = None) -> None:
    """List relays with their status and lag."""
    states = session.collect(lambda conn: _with_lag(session, conn, topic))
    # Condition and version are in `show` and in the JSON: with them the table would not fit into 80 columns.
    columns: list[Column] = ["relay", "topic", "target", "status", "lag_events", "lag_s", "error"]
    session.show(columns, states, facts=dict)


def _with_lag(session: Session, conn: Connection, topic: str | None) -> list[dict[str, object]]:
    lags: dict[str, list[tuple[int, float]]] = {}
    for lag in consumer_lag(conn, topic=topic, namespace=session.namespace):
        lags.setdefault(f"{lag.topic}/{lag.consumer}", []).append((lag.lag_events, lag.lag_s))
    rows: list[dict[str, object]] = []
    for state in list_relays(conn, topic=topic, namespace=session.namespace):
        cursors = lags.get(f"{state.relay.topic}/{state.consumer}", [(0, 0.0)])
        rows.append(
            {
                "relay": state.relay.name,
                "topic": state.relay.topic,
                "target": state.relay.target,
                "condition": state.relay.condition,
                "version": state.version,
                "status": _status(state),
                "lag_events": sum(events for events, _ in cursors),
                "lag_s": max(lag_s for _, lag_s in cursors),
                "error": state.error.splitlines()[0] if state.error else state.pause_reason,
            }
        )
    return rows


def _status(state: RelayState) -> str:
    status = f"{state.status}, paused" if state.paused and state.status != "disabled" else state.status
    return status if state.relay.active else f"{status}, not active"


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show the definition and the status of one relay, and its cursors with the last error.

    Secrets are not shown: the options refer to them.
    """
    states = session.collect(lambda conn: [get_relay(conn, name, namespace=session.namespace)])
    tables = []
    for (target, state), (_, conn) in zip(states, session.shards(), strict=True):
        facts = asdict(state)
        definition = facts.pop("relay")
        tables.append(facts_table(f"relay {definition.pop('name')}", target, definition | facts))
        lags = consumer_lag(conn, topic=state.relay.topic, consumer=state.consumer, namespace=session.namespace)
        columns: list[Column] = [
            "partition",
            "position",
            ("lag", "lag_events"),
            "lag_s",
            "state",
            "attempts",
            "retry_at",
            "error",
        ]
        tables.append(table(columns, lags))
    session.print([{"shard": target.name} | _facts(state) for target, state in states], *tables)


def _facts(state: RelayState) -> dict[str, object]:
    facts: dict[str, object] = msgspec.to_builtins(state)
    definition = facts.pop("relay")
    assert isinstance(definition, dict)
    return definition | facts


class Options(TypedDict, total=False):
    """The options of `relay create` and `relay alter`."""

    topic: Annotated[str, Option(help="Topic of the events.", show_default=False)]
    target: Annotated[
        str, Option(help="Kind of the system: webhook, postgres, nats, redis, rabbitmq, kafka …", show_default=False)
    ]
    condition: Annotated[str, Option(help="Condition on the event.")]
    format: Annotated[Format, Option(help="What a message's body is.")]
    start: Annotated[Start, Option(help="Where a new relay starts.")]
    attempts: Annotated[int | None, Option(min=1, help="Attempts per event.", show_default="until the target takes it")]
    when_exhausted: Annotated[Exhausted, Option(help="After the last attempt.")]
    key_order: Annotated[KeyOrder, Option(help="Do later events of its key wait behind a dead letter?")]
    batch: Annotated[int, Option(min=1, max=10_000, help="Events that are delivered together at most.")]
    concurrency: Annotated[int, Option(min=1, max=64, help="Partitions that a node delivers at the same time.")]
    active: Annotated[bool, Option("--active/--no-active", help="Run the relay.")]


TargetOptions = Annotated[
    list[str] | None,
    Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Option of the target; the value is JSON or text; repeatable.",
        show_default=False,
    ),
]
MappingOption = Annotated[
    str | None, Option("--mapping", help="Fields of a message as JSON, for the format template.", show_default=False)
]


@command(group, "create", defaults=Relay)
def create(
    session: Session, name: Name, option: TargetOptions = None, mapping: MappingOption = None, **options: Unpack[Options]
) -> None:
    """Create a relay, on every shard.

    A secret is a reference: env:CRM, in namespace shop the node's variable HEADRACE_SECRET_SHOP__CRM, or file:crm, its file shop.crm.

    Example: headrace relay create crm --topic orders --target webhook -o url=https://crm.example/hook
    -o secret=env:CRM --condition "type = 'order.paid'"
    """
    relay = Relay(name=name, options=_parse_options(option), mapping=_parse_mapping(mapping), **options)
    session.on_every_shard(lambda conn: create_relay(conn, relay, namespace=session.namespace))
    session.done(f"relay {name} created; a node of the namespace runs it within a second", {"relay": name})


@command(group, "alter")
def alter(
    session: Session, name: Name, option: TargetOptions = None, mapping: MappingOption = None, **changes: Unpack[Options]
) -> None:
    """Change a relay, on every shard; each change is a new version, and the cursors stay.

    Options that you leave out keep their values; --option replaces single options of the target.

    Examples: headrace relay alter crm -o timeout_s=5 · headrace relay alter crm --no-active
    """
    if not changes and not option and mapping is None:
        raise BadParameter("nothing to change; add an option such as --condition")
    compared = Changes(session)
    for target, conn in session.shards():
        state = get_relay(conn, name, namespace=session.namespace)
        relay = replace(state.relay, options={**state.relay.options, **_parse_options(option)}, **changes)
        if mapping is not None:
            relay = replace(relay, mapping=_parse_mapping(mapping))
        alter_relay(conn, relay, namespace=session.namespace, source=state.source)
        compared.add(target, asdict(state.relay), asdict(relay))
    compared.done(f"relay {name} changed; a node runs it within a second", {"relay": name})


def _parse_options(pairs: list[str] | None) -> dict[str, JSON]:
    options: dict[str, JSON] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--option")
        try:
            options[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            options[name] = text
    return options


def _parse_mapping(text: str | None) -> Mapping[str, JSON] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadParameter(f"not a JSON object: {error}", param_hint="--mapping") from None


@command(group, "pause")
def pause_(
    session: Session, name: Name, reason: Annotated[str | None, Option(help="Why; shown in the list of pauses.")] = None
) -> None:
    """Pause a relay, on every shard. A running delivery finishes; nothing is lost."""
    changed = any(session.on_every_shard(lambda conn: pause(conn, "relay", name, reason=reason, namespace=session.namespace)))
    session.done(f"relay {name} {'is paused' if changed else 'was paused already'}", {"relay": name, "changed": changed})


@command(group, "resume")
def resume_(session: Session, name: Name) -> None:
    """Let a paused or disabled relay go on, and retry partitions that have stopped, or wait for a retry, at once."""
    count = sum(session.on_every_shard(lambda conn: resume(conn, "relay", name, namespace=session.namespace)))
    session.done(f"{count} partitions of relay {name} resumed", {"relay": name, "resumed": count})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a relay with its cursors and dead letters, on every shard. Its versions stay on record."""
    session.confirm(f"Drop relay {name} with its cursors and dead letters?", yes=yes)
    session.on_every_shard(lambda conn: drop_relay(conn, name, namespace=session.namespace))
    session.done(f"relay {name} dropped", {"relay": name})


@command(group, "history")
def history(session: Session, name: Name) -> None:
    """Show all versions of a relay; also of a dropped one."""
    versions = session.collect(lambda conn: list_relay_versions(conn, name, namespace=session.namespace))
    columns: list[Column] = ["version", "written_at", ("by", "written_by"), "target", "condition", "format", "options"]
    session.show([*columns, ("state", _version_state)], versions)


def _version_state(version: RelayVersion) -> str:
    return "dropped" if version.dropped else "active" if version.active else "not active"


@command(group, "seek")
def seek(
    session: Session,
    name: Name,
    to: Annotated[str, Argument(metavar="TO", help="earliest, latest, the next position, or a time.", show_default=False)],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move the cursors of a relay, after showing how many events that is.

    Moving back delivers events again, where the target does not drop repetitions; moving forward skips events.

    Example: headrace relay seek crm 2026-01-31T12:00:00Z
    """
    preview = session.collect(lambda conn: seek_relay(conn, name, to, preview=True, namespace=session.namespace))
    if not session.json:
        columns: list[Column] = ["partition", "from_position", "to_position", ("events", lambda move: abs(move.events))]
        meaning: Column = ("", lambda move: "again" if move.events > 0 else "skipped" if move.events < 0 else "unchanged")
        session.show([*columns, meaning], preview)
    moves = preview
    if not dry_run:
        session.confirm(f"Move relay {name}?", yes=yes)
        moves = session.collect(lambda conn: seek_relay(conn, name, to, namespace=session.namespace))
    again, skipped = (sum(max(sign * move.events, 0) for _, move in moves) for sign in (1, -1))
    verb = "would be" if dry_run else "will be"
    result = {"relay": name, "moved": not dry_run, "delivered_again": again, "skipped": skipped}
    session.done(f"{again} events {verb} delivered again, {skipped} skipped", result)


@command(group, "backtest")
def backtest(
    session: Session,
    name: Annotated[str, Argument(metavar="RELAY", help="Name of a relay, or a file of relays.", show_default=False)],
    start: From = "earliest",
    end: To = "latest",
    samples: Annotated[int, Option(min=0, max=1000, help="Messages to show.")] = 5,
) -> None:
    """Show what a relay would have sent for past events. Sends nothing.

    Examples: headrace relay backtest crm --from 1000 · headrace relay backtest definitions.yaml
    """
    for target, conn in session.shards():
        is_file = name.endswith((".yaml", ".yml", ".py"))
        relays = load_relays(Path(name)) if is_file else [get_relay(conn, name, namespace=session.namespace).relay]
        for relay in relays:
            result = backtest_relay(conn, relay, start=start, end=end, samples=samples, namespace=session.namespace)
            _print_backtest(session, target, relay, result)


def _print_backtest(session: Session, target: Target, relay: Relay, result: RelayBacktest) -> None:
    if session.json:
        facts = {field: getattr(result, field) for field in ("from_position", "to_position", "events", "messages", "body_bytes")}
        samples = [_sample(message) for message in result.samples]
        types = dict(result.by_event_type)
        json_line({"shard": target.name, "relay": relay.name, **facts, "by_event_type": types, "samples": samples})
        return
    if not result.events:
        console().print(f"{relay.name}: topic {relay.topic} has no events there; nothing would have been sent", markup=False)
        return
    console().print(
        f"{relay.name}: {result.messages} messages of {result.body_bytes} bytes for the {result.events} events "
        f"from position {result.from_position} to {result.to_position}",
        markup=False,
        soft_wrap=True,
    )
    if result.by_event_type:
        console().print(table(["event type", "messages"], sorted(result.by_event_type.items())))
    for message in result.samples:
        console().print(f"{message.position}: {safe_lines(message.body.decode())}", markup=False, soft_wrap=True)


def _sample(message: Message) -> dict[str, object]:
    body = msgspec.json.decode(message.body)
    return {"position": message.position, "key": message.key, "body": body, "headers": dict(message.headers)}
