"""`headrace relay`: relays deliver events to other systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
from typer import Argument, BadParameter, Option

from headrace.cli.definition import DefinitionGroup
from headrace.cli.options import DryRun, From, To, Yes
from headrace.cli.output import Column, console, first_line, json_line, table
from headrace.cli.session import Session, command
from headrace.consume import consumer_lag
from headrace.core import JSON, safe_lines
from headrace.db import Connection, Target
from headrace.relays import (
    RELAYS,
    Relay,
    RelayBacktest,
    RelayState,
    backtest_relay,
    get_relay,
    list_relays,
    load_relays,
    seek_relay,
)


def _rows_with_lag(session: Session, conn: Connection, topic: str | None) -> list[dict[str, object]]:
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
                "error": first_line(state.error) or state.pause_reason,
            }
        )
    return rows


def _status(state: RelayState) -> str:
    status = f"{state.status}, paused" if state.paused and state.status != "disabled" else state.status
    return status if state.relay.active else f"{status}, not active"


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


CURSORS: Sequence[Column] = ("partition", "position", ("lag", "lag_events"), "lag_s", "state", "attempts", "retry_at", "error")
Name = Annotated[str, Argument(metavar="RELAY", help="Name of the relay.", show_default=False)]
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
group = DefinitionGroup(
    kind=RELAYS,
    help="Relays: deliver the events of a topic to another system.",
    listed=("target", "condition", "format", "options"),
    # Condition and version are in `show` and in the JSON: with them the table would not fit into 80 columns.
    states=("relay", "topic", "target", "status", "lag_events", "lag_s", "error"),
    list_rows=_rows_with_lag,
    details=lambda session, conn, state: [
        table(CURSORS, consumer_lag(conn, topic=state.relay.topic, consumer=state.consumer, namespace=session.namespace))
    ],
    loses=" with its cursors and dead letters",
    options={"option": (TargetOptions, None)},
    options_set=("options",),
    apply_options=lambda relay, values, _: replace(relay, options={**relay.options, **_parse_options(values.get("option"))}),
    texts={
        "show": "Secrets are not shown: the options refer to them.",
        "create": """A secret is a reference: env:CRM, in namespace shop the node's variable HEADRACE_SECRET_SHOP__CRM, or file:crm,
        its file shop.crm.

        Example: headrace relay create crm --topic orders --target webhook -o url=https://crm.example/hook
        -o secret=env:CRM --condition "type = 'order.paid'\"""",
        "alter": """The cursors stay; --option replaces single options of the target.

        Examples: headrace relay alter crm -o timeout_s=5 · headrace relay alter crm --no-active""",
        "drop": "Its versions stay on record.",
        "pause": "A running delivery finishes; nothing is lost.",
        "resume": "A disabled relay is tried again, and partitions that have stopped, or wait for a retry, at once.",
    },
).build()


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
    preview = session.collect(session.bind(seek_relay, name, to, preview=True))
    if not session.json:
        columns: list[Column] = ["partition", "from_position", "to_position", ("events", lambda move: abs(move.events))]
        meaning: Column = ("", lambda move: "again" if move.events > 0 else "skipped" if move.events < 0 else "unchanged")
        session.show([*columns, meaning], preview)
    moves = preview
    if not dry_run:
        session.confirm(f"Move relay {name}?", yes=yes)
        moves = session.collect(session.bind(seek_relay, name, to))
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
        samples = [
            {
                "position": message.position,
                "key": message.key,
                "body": msgspec.json.decode(message.body),
                "headers": {**message.headers},
            }
            for message in result.samples
        ]
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
