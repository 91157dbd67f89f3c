"""Relays: what is delivered where, how far, and why not; versions; pause, resume and drop. Their cursors move on the page of the
consumer; relays_editing creates, changes and backtests them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Literal
from urllib.parse import quote

from headrace import relays
from headrace.actions import pause as pause_
from headrace.actions import resume as resume_
from headrace.core import UnknownRelay
from headrace.db import Connection
from headrace.web.console.pages.consumers import consumer_url, read_cursors, summarize
from headrace.web.console.pages.versions import FieldChange, compare
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import Done, Page, View

PREFIX = "relay."
VERSION_FIELDS = ("condition", "target", "options", "format", "mapping", "active")


def list_relays(view: View) -> Page:
    """All relays of the namespace, with their lag."""
    lags = {
        (row["shard"], row["consumer"]): row
        for _, parts in groupby(read_cursors(view), key=lambda row: (row["shard"], row["topic"], row["consumer"]))
        if (row := summarize(list(parts)))["consumer"].startswith(PREFIX)
    }
    rows = [
        _row(state, lags.get((state["shard"], state["consumer"]), {}))
        for state in view.collect(lambda conn: relays.list_relays(conn, namespace=view.namespace))
    ]
    columns = (
        Column("name", "relay", link=lambda row: relay_url(view, row["name"])),
        Column("topic", link=lambda row: view.url(f"/topics/{quote(row['topic'], safe='')}")),
        Column("target"),
        Column("state", kind="state"),
        Column("lag_events", "lag", kind="number", hint="Events not delivered yet, also such as do not meet the condition"),
        Column("lag_s", "behind", kind="seconds"),
        Column("condition", kind="code", wide=True),
        Column("reason", "why", wide=True),
    )
    empty = "headrace relay create crm --topic orders --target webhook -o url=https://crm.example/hook -o secret=env:CRM"
    values = {"noun": "relay", "create_url": view.url("/relays/-/create")}
    return Page("list.html", "Relays", tables=(Table("relays", columns, rows, empty=empty),), values=values)


def _row(state: Row, lag: Row) -> Row:
    relay = state["relay"]
    return {
        "shard": state["shard"],
        "name": relay["name"],
        "topic": relay["topic"],
        "target": relay["target"],
        "condition": relay["condition"],
        "state": _state_name(state, lag),
        "lag_events": lag.get("lag_events"),
        "lag_s": lag.get("lag_s"),
        "reason": state["error"] or lag.get("reason"),
    }


def _state_name(state: Row, lag: Row) -> str:
    if not state["relay"]["active"]:
        return "not active"
    return str(state["status"] if state["status"] in ("invalid", "disabled") else lag.get("state", state["status"]))


def show_relay(view: View) -> Page:
    """One relay: its definition, its cursors and its versions."""
    name = view.path["relay"]
    states = view.collect(lambda conn: relays.list_relays(conn, name=name, namespace=view.namespace))
    if not states:
        raise UnknownRelay(f"there is no relay {name!r} in namespace {view.namespace!r}")
    state = states[0]
    relay = state["relay"]
    cursors = read_cursors(view, topic=relay["topic"], consumer=state["consumer"])
    partitions = (
        Column("partition"),
        Column("position", kind="number"),
        Column("lag_events", "lag", kind="number"),
        Column("lag_s", "behind", kind="seconds"),
        Column("state", kind="state"),
        Column("attempts", kind="number"),
        Column("retry_at", "next attempt", kind="time"),
        Column("error", wide=True),
    )
    versions = view.each_shard(lambda conn: relays.list_relay_versions(conn, name, namespace=view.namespace))
    lag = summarize(cursors) if cursors else {}
    values = {
        "relay": relay,
        "state": _state_name(state, lag),
        "is_paused": state["paused"],
        "error": state["error"] or state["pause_reason"],
        "facts": _facts(relay, state),
        "base": f"/relays/{quote(name, safe='')}",
        "consumer_url": consumer_url(view, relay["topic"], state["consumer"]),
        "dead_letters_url": view.url("/dead-letters"),
        "edit_url": view.url("/relays/-/edit", relay=name),
        "versions": _describe_versions(versions[0][1]),
    }
    return Page("relay.html", name, tables=(Table("partitions", partitions, cursors, title="Partitions"),), values=values)


@dataclass(frozen=True)
class VersionText:
    """A version, and what it changed compared with the one before."""

    version: int
    written_at: datetime
    written_by: str
    headline: str
    changes: list[FieldChange]


def _describe_versions(versions: Sequence[relays.RelayVersion]) -> list[VersionText]:
    """The versions, newest first. A relay that was dropped and created again starts afresh."""
    texts: list[VersionText] = []
    before: relays.RelayVersion | None = None
    for version in versions:
        is_new = before is None or before.relay_id != version.relay_id
        changes = [] if is_new or before is None else compare(vars(before), vars(version), VERSION_FIELDS)
        headline = (
            "dropped" if version.dropped else "created" if is_new else "changed" if changes else "another failure policy or size"
        )
        texts.append(
            VersionText(version.version, version.written_at, version.written_by, headline, [] if version.dropped else changes)
        )
        before = version
    return texts[::-1]


def _facts(relay: Row, state: Row) -> list[tuple[str, object]]:
    attempts = "until the target takes it" if relay["attempts"] is None else relay["attempts"]
    then = "the partition stops" if relay["when_exhausted"] == "stop" else "it becomes a dead letter"
    return [
        ("Topic", relay["topic"]),
        ("Target", relay["target"]),
        ("Condition", relay["condition"]),
        ("Format", relay["format"]),
        ("Attempts", attempts),
        ("After the last one", then),
        ("Events per delivery", relay["batch"]),
        ("Partitions at the same time", relay["concurrency"]),
        ("Version", state["version"]),
        ("Source", state["source"]),
    ]


def pause(view: View) -> Done:
    """Pauses a relay, on every selected shard."""
    name = view.path["relay"]
    _change(view, "relay.pause", lambda conn: pause_(conn, "relay", name, namespace=view.namespace))
    return Done(f"relay {name} is paused", relay_url(view, name))


def resume(view: View) -> Done:
    """Lets a paused or disabled relay go on, and tries stopped and waiting partitions again at once."""
    name = view.path["relay"]
    _change(view, "relay.resume", lambda conn: resume_(conn, "relay", name, namespace=view.namespace))
    return Done(f"relay {name} resumed", relay_url(view, name))


def drop(view: View) -> Done:
    """Drops a relay with its cursors and dead letters; its versions stay on record."""
    name = view.path["relay"]
    view.change("relay.drop", name, lambda conn: relays.drop_relay(conn, name, namespace=view.namespace))
    return Done(f"relay {name} dropped", view.url("/relays"))


def _change(view: View, what: Literal["relay.pause", "relay.resume"], act: Callable[[Connection], object]) -> None:
    name = view.path["relay"]

    def state(conn: Connection) -> object:
        relay = relays.get_relay(conn, name, namespace=view.namespace)
        return {"status": relay.status, "paused": relay.paused}

    view.change(what, name, act, state=state)


def relay_url(view: View, name: str) -> str:
    return view.url(f"/relays/{quote(name, safe='')}")


ROUTES = (
    read("/relays", list_relays),
    read("/relays/{relay}", show_relay),
    change("/relays/{relay}/pause", pause, form=show_relay),
    change("/relays/{relay}/resume", resume, form=show_relay),
    change("/relays/{relay}/drop", drop, form=show_relay),
)
