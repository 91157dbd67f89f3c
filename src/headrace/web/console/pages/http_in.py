"""HTTP in: hooks, with how they are signed and become events; and access tokens, who may publish and read, since when, until when.

Created, enabled, disabled and dropped; a token is shown once, and revoked."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import cast, get_args
from urllib.parse import quote

import msgspec

from headrace.core import Invalid, is_reference
from headrace.db import Connection
from headrace.web import http as ingest
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Table, wide
from headrace.web.console.view import Done, Page, View

DAYS_MAX = 3650
CREATED = (wide("created_at"), Column("created_by", "by", wide=True))


def list_hooks(view: View) -> Page:
    rows = [
        {**row, "state": "active" if row["active"] else "disabled", "path": hook_path(row["namespace"], row["hook"])}
        for row in view.collect(view.bind(ingest.list_hooks))
    ]
    hook, topic = Column("hook", link=view.link("/hooks", "hook")), Column("topic", link=view.link("/topics", "topic"))
    columns = (hook, "state", topic, "scheme", Column("path", "address", kind="code"), *CREATED)
    empty = "headrace hook create github code --scheme github --secret env:GITHUB"
    values = {"noun": "hook", "create_url": view.url("/hooks/-/create")}
    return Page("list.html", "Hooks", tables=(Table("hooks", columns, rows, empty=empty),), values=values)


def show_hook(view: View) -> Page:
    """One hook: who may send, and how a request becomes an event."""
    name = view.path["hook"]
    _, hook = view.find(view.bind(ingest.get_hook, name))
    facts = [
        ("Address", f"POST {hook_path(hook.namespace, name)}"),
        ("Topic", hook.topic),
        ("Scheme", hook.scheme),
        ("Secrets", ", ".join(hook.secrets)),
        ("Signed times count for", f"{hook.window_s:g} s"),
        ("Created", hook.created_at),
        ("By", hook.created_by),
    ]
    values = {
        "hook": hook,
        "state": "active" if hook.active else "disabled",
        "facts": facts,
        "mapping": ingest.describe_mapping(hook.scheme, hook.mapping),
        "base": f"/hooks/{quote(name, safe='')}",
    }
    return Page("hook.html", name, values=values)


def create_hook_form(view: View) -> Page:
    # A secret that was typed in the place of its reference is not shown again.
    references = [word for word in view.form.get("secrets", "").replace(",", " ").split() if is_reference(word)]
    values = {
        "schemes": ingest.SCHEMES.names(),
        "topics": [topic for topic in view.topic_names() if not topic.startswith("headrace.")],
        "secrets": ", ".join(references),
    }
    return Page("hook_create.html", "Create a hook", values=values, is_live=False)


def create_hook(view: View) -> Done:
    form = {name: value.strip() for name, value in view.form.items()}
    name = form.get("hook", "")
    secrets = form.get("secrets", "").replace(",", " ").split()
    mapping = _mapping(form.get("mapping", ""))

    topic, scheme = form.get("topic", ""), form.get("scheme", "")
    act = view.bind(ingest.create_hook, name, topic, scheme, secrets, mapping=mapping)
    # Secrets are not among the details: one may have been typed in the place of its reference.
    details = {"topic": topic, "scheme": scheme, "mapping": mapping}
    view.change("hook.create", name, act, details=details)
    return Done(f"hook {name} created", view.url("/hooks", name))


def _mapping(text: str) -> dict[str, str] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text else None
    except msgspec.DecodeError as error:
        raise Invalid(f"the mapping is not an object of texts in JSON: {error}") from None


def change_hook(view: View, what: str) -> Done:
    """Enables, disables or drops a hook. Its events stay."""
    name = view.path["hook"]
    acts = {"drop": view.bind(ingest.drop_hook, name)}
    act = acts.get(what) or view.bind(ingest.alter_hook, name, active=what == "enable")

    def state(conn: Connection) -> object:
        return [asdict(hook) for hook in ingest.list_hooks(conn, namespace=view.namespace) if hook.hook == name]

    view.change(f"hook.{what}", name, act, state=state)
    messages = {
        "enable": "takes requests",
        "disable": "is disabled; servers reject its requests within 5 seconds",
        "drop": "dropped",
    }
    return Done(f"hook {name} {messages[what]}", view.url("/hooks") if what == "drop" else view.url("/hooks", name))


def hook_path(namespace: str, name: str) -> str:
    """The address below that of the HTTP server."""
    parts = [name] if namespace == "default" else [namespace, name]
    return "".join(["/hooks", *(f"/{quote(part, safe='')}" for part in parts)])


def list_tokens(view: View) -> Page:
    """All access tokens of the namespace, also revoked ones."""
    now = datetime.now(UTC)
    rows = [
        {
            **row,
            "state": "revoked" if row["revoked_at"] else "expired" if (row["expires_at"] or now) < now else "active",
            "rights": ", ".join(row["rights"]),
            "topics": "all" if row["topics"] is None else ", ".join(row["topics"]),
            "event_types": "all" if row["event_types"] is None else ", ".join(row["event_types"]),
        }
        for row in view.collect(view.bind(ingest.list_access_tokens))
    ]
    rate, used = Column("rate_per_s", "requests per s", wide=True), Column("last_used_at", hint="Recorded once a minute")
    columns = (Column("name", "token"), "state rights", wide("topics event_types"), rate, "expires_at", used, *CREATED)
    empty = "headrace token create shop --publish --topic orders --type 'order.*' --days 90"
    table = Table("access_tokens", columns, rows, empty=empty)
    values = {"noun": "token", "create_url": view.url("/access-tokens/-/create"), "base": "/access-tokens"}
    return Page("access_tokens.html", "Access tokens", tables=(table,), values=values)


def create_token_form(view: View) -> Page:
    return Page("access_token_create.html", "Create an access token", values={"token": None}, is_live=False)


def create_token(view: View) -> Page:
    """Creates an access token, the same on every shard, and shows it. It cannot be shown again."""
    form = {name: value.strip() for name, value in view.form.items()}
    name = form.get("name", "")
    rights = [cast(ingest.Right, right) for right in get_args(ingest.Right) if form.get(right) == "yes"]
    topics, event_types = _list(form.get("topics", "")), _list(form.get("event_types", ""))
    expires_at = _expires_at(form.get("days", ""))
    rate_per_s = _rate(form.get("rate_per_s", ""))
    token = ingest.NewAccessToken.generate()

    limits = {"topics": topics, "event_types": event_types, "expires_at": expires_at, "rate_per_s": rate_per_s}
    act = view.bind(
        ingest.create_access_token,
        name,
        rights,
        topics=topics,
        event_types=event_types,
        expires_at=expires_at,
        rate_per_s=rate_per_s,
        token=token,
    )
    view.change("access_token.create", name, act, details={"rights": rights, **limits})
    values = {"token": token.token, "name": name}
    return Page("access_token_create.html", f"Access token {name}", values=values, is_live=False)


def _list(text: str) -> list[str] | None:
    names = [name.strip() for name in text.replace("\n", ",").split(",") if name.strip()]
    return names or None


def _expires_at(days: str) -> datetime | None:
    if not days:
        return None
    if not (days.isascii() and days.isdigit() and 1 <= int(days) <= DAYS_MAX):
        raise Invalid(f"days is {days!r}, not a number from 1 to {DAYS_MAX}; leave it empty for no expiry")
    return datetime.now(UTC) + timedelta(days=int(days))


def _rate(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise Invalid(f"requests per second is {text!r}, not a number; leave it empty for the server's own limit") from None


def revoke_token(view: View) -> Done:
    name = view.path["token"]

    def state(conn: Connection) -> object:
        tokens = ingest.list_access_tokens(conn, namespace=view.namespace)
        return [asdict(token) for token in tokens if token.name == name and token.revoked_at is None]

    view.change("access_token.revoke", name, view.bind(ingest.revoke_access_token, name), state=state)
    return Done(f"token {name} is revoked; servers reject it within 5 seconds", view.url("/access-tokens"))


ROUTES = (
    read("/hooks", list_hooks),
    read("/hooks/-/create", create_hook_form),
    change("/hooks/-/create", create_hook, form=create_hook_form),
    read("/hooks/{hook}", show_hook),
    change("/hooks/{hook}/enable", partial(change_hook, what="enable"), form=show_hook),
    change("/hooks/{hook}/disable", partial(change_hook, what="disable"), form=show_hook),
    change("/hooks/{hook}/drop", partial(change_hook, what="drop"), form=show_hook),
    read("/access-tokens", list_tokens),
    read("/access-tokens/-/create", create_token_form),
    change("/access-tokens/-/create", create_token, form=create_token_form),
    change("/access-tokens/{token}/revoke", revoke_token, form=list_tokens),
)
