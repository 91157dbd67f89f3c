"""Create and edit a relay: first the plan, with what it would have sent for the newest events, then apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args
from urllib.parse import quote

import msgspec

from headrace.core import JSON, HeadraceError, Invalid
from headrace.db import Connection
from headrace.definitions.schemas import Finding, RelayFields, find_in_relay
from headrace.relays import (
    TARGETS,
    Format,
    Relay,
    RelayBacktest,
    RelayState,
    alter_relay,
    backtest_relay,
    check_relay,
    create_relay,
    get_relay,
    list_relays,
)
from headrace.web.console.pages.editing import Plan, apply_plan, editing_routes, is_typed, topic_names, typed_value, whole_number
from headrace.web.console.pages.versions import compare
from headrace.web.console.view import Done, Page, View

FORMATS = get_args(Format)
BACKTEST_EVENTS = 1_000
"""Events at the end of the log that the plan maps."""
FIELDS = (
    "topic", "target", "options", "condition", "format", "mapping", "start", "attempts", "backoff_s", "backoff_max_s", "when_exhausted",
    "key_order", "batch", "concurrency", "active",
)  # fmt: skip
CHOICES = {
    "format": FORMATS, "start": ("latest", "earliest"), "when_exhausted": ("dead_letter", "stop"), "key_order": ("hold", "skip"),
    "active": ("yes", "no"),
}  # fmt: skip
NEW = {
    "condition": "true",
    "options": "{}",
    "format": "stored",
    "start": "latest",
    "when_exhausted": "dead_letter",
    "key_order": "hold",
}


@dataclass(frozen=True, kw_only=True)
class RelayPlan(Plan):
    """What applying would change, and what the relay would have sent."""

    relay: Relay
    backtests: Sequence[tuple[str, RelayBacktest]]
    """By shard; none for a person from whom fields are hidden."""


def create_form(view: View) -> Page:
    """A new relay; with `plan` in the address also what it would do."""
    fields = {field: typed_value(view, field) for field in FIELDS}
    if not is_typed(view):
        fields |= NEW | {field: str(getattr(DEFAULTS, field)) for field in ("backoff_s", "backoff_max_s", "batch", "concurrency")}
        fields["active"] = "yes"
    return _form_page(view, typed_value(view, "relay").strip(), fields, None)


def edit_form(view: View) -> Page:
    """A relay of today in a form; with `plan` in the address also what the change would do."""
    name = typed_value(view, "relay")
    state = view.each_shard(lambda conn: get_relay(conn, name, namespace=view.namespace))[0][1]
    # `plan=now` is the backtest of the relay as it is.
    has_values = is_typed(view) and view.query.get("plan") != "now"
    fields = {field: typed_value(view, field) for field in FIELDS} if has_values else _fields_of(state.relay)
    return _form_page(view, name, fields, state)


def apply_relay(view: View) -> Done:
    """Creates or changes the relay on every selected shard, if it is still the one that the plan has shown."""
    name = view.form.get("relay", "").strip()
    relay = _relay(name, {field: view.form.get(field, "") for field in FIELDS})
    own: dict[str, Any] = {"namespace": view.namespace}
    done = apply_plan(
        view,
        "relay",
        name,
        create=lambda conn: create_relay(conn, relay, **own),
        get=lambda conn: get_relay(conn, name, **own),
        alter=lambda conn, source: alter_relay(conn, relay, source=source, **own),
        state=lambda conn: _definition(conn, view, name),
    )
    return Done(f"{done}; a running node runs it within a second", view.url(f"/relays/{quote(name, safe='')}"))


def _definition(conn: Connection, view: View, name: str) -> object:
    states = list_relays(conn, name=name, namespace=view.namespace)
    return {"version": states[0].version, **asdict(states[0].relay)} if states else None


def _form_page(view: View, name: str, fields: dict[str, str], state: RelayState | None) -> Page:
    plan = None
    if is_typed(view):
        try:
            plan = _plan(view, name, fields, state)
        except HeadraceError as error:
            view.error = view.error or str(error)
    values = {
        "name": name,
        "fields": fields,
        "state": state,
        "plan": plan,
        "topics": [topic for topic in topic_names(view) if not topic.startswith("headrace.")],
        # A relay may have a target whose package only the nodes have.
        "targets": list(dict.fromkeys([*TARGETS.names(), *([state.relay.target] if state else [])])),
        "formats": FORMATS,
        "address": "/relays/-/edit" if state else "/relays/-/create",
    }
    return Page("relay_edit.html", f"Edit {name}" if state else "Create a relay", values=values, is_live=False)


def _plan(view: View, name: str, fields: Mapping[str, str], state: RelayState | None) -> RelayPlan:
    """Checks the relay, compares it with the one of today, and maps the newest events. Raises Invalid for what apply would reject."""
    relay = _relay(name, fields)
    check_relay(relay)
    changes = compare(asdict(state.relay), asdict(relay), FIELDS) if state else []
    # Rolled back: the database says what is wrong with names and topics, as it will when the relay is applied.
    if not view.is_read_only:
        view.preview(lambda conn: (alter_relay if state else create_relay)(conn, relay, namespace=view.namespace))

    def find(conn: Connection) -> list[Finding]:
        relay_fields = RelayFields(relay.condition, relay.mapping)
        return [finding for _, finding in find_in_relay(conn, relay.topic, relay_fields, namespace=view.namespace)]

    findings = dict.fromkeys(finding for _, part in view.each_shard(find) for finding in part)
    # Numbers of messages and bytes would tell what is in a hidden field, by the condition and the mapping that are typed here.
    backtests = [] if view.hidden_fields else view.each_shard(lambda conn: _backtest(conn, view, relay))
    return RelayPlan(relay=relay, changes=changes, findings=list(findings), backtests=backtests, fields=fields)


def _backtest(conn: Connection, view: View, relay: Relay) -> RelayBacktest:
    row = conn.execute(
        "select h.position from headrace.log_head(headrace.topic_id(%s, %s)) h", (relay.topic, view.namespace)
    ).fetchone()
    first = max((row[0] if row else 0) - BACKTEST_EVENTS, 0) + 1
    return backtest_relay(conn, relay, start=str(first), samples=3, namespace=view.namespace)


def _relay(name: str, fields: Mapping[str, str]) -> Relay:
    texts = {field: value.replace("\r\n", "\n").strip() for field, value in fields.items()}
    mapping = _object(texts["mapping"], "mapping") if texts["mapping"] else None
    for field, words in CHOICES.items():
        if texts[field] and texts[field] not in words:
            raise Invalid(f"{field} is {' or '.join(words)}, not {texts[field]!r}")
    values: dict[str, Any] = {
        "name": name,
        "topic": texts["topic"],
        "target": texts["target"],
        "options": _object(texts["options"] or "{}", "options"),
        "condition": texts["condition"] or "true",
        "format": texts["format"] or "stored",
        "mapping": mapping if texts["format"] == "template" else None,
        "start": texts["start"] or "latest",
        "attempts": whole_number(texts["attempts"], "attempts") if texts["attempts"] else None,
        "backoff_s": _number(texts["backoff_s"], "backoff", DEFAULTS.backoff_s),
        "backoff_max_s": _number(texts["backoff_max_s"], "longest backoff", DEFAULTS.backoff_max_s),
        "when_exhausted": texts["when_exhausted"] or "dead_letter",
        "key_order": texts["key_order"] or "hold",
        "batch": whole_number(texts["batch"] or str(DEFAULTS.batch), "events per delivery"),
        "concurrency": whole_number(texts["concurrency"] or "1", "partitions at the same time"),
        "active": texts["active"] != "no",
    }
    return Relay(**values)


def _object(text: str, name: str) -> dict[str, JSON]:
    try:
        return cast(dict[str, JSON], msgspec.json.decode(text, type=dict[str, Any]))
    except msgspec.DecodeError as error:
        raise Invalid(f"the {name} are not an object in JSON: {error}") from None


def _number(text: str, name: str, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        raise Invalid(f"{name} must be a number of seconds, not {text!r}") from None


def _fields_of(relay: Relay) -> dict[str, str]:
    fields = {field: str(getattr(relay, field)) for field in FIELDS}
    return fields | {
        "options": _json(relay.options),
        "mapping": _json(relay.mapping) if relay.mapping is not None else "",
        "attempts": "" if relay.attempts is None else str(relay.attempts),
        "active": "yes" if relay.active else "no",
    }


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


DEFAULTS = Relay(name="", topic="", target="")

ROUTES = editing_routes("/relays", create=create_form, edit=edit_form, apply=apply_relay)
