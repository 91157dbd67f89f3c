"""Hooks: addresses for webhooks of other systems; how they are signed and become events; create, enable, disable, drop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from urllib.parse import quote

import msgspec

from headrace.core import Invalid, UnknownHook
from headrace.db import Connection
from headrace.log.topics import list_topics
from headrace.web import http as ingest
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Table
from headrace.web.console.view import Done, Page, View


def list_hooks(view: View) -> Page:
    """All hooks of the namespace."""
    rows = [
        {**row, "state": "active" if row["active"] else "disabled", "path": hook_path(row["namespace"], row["hook"])}
        for row in view.collect(lambda conn: ingest.list_hooks(conn, namespace=view.namespace))
    ]
    columns = (
        Column("hook", link=lambda row: hook_url(view, row["hook"])),
        Column("state", kind="state"),
        Column("topic", link=lambda row: view.url(f"/topics/{quote(row['topic'], safe='')}")),
        Column("scheme"),
        Column("path", "address", kind="code"),
        Column("created_at", "created", kind="time", wide=True),
        Column("created_by", "by", wide=True),
    )
    empty = "headrace hook create github code --scheme github --secret env:GITHUB"
    return Page("hooks.html", "Hooks", tables=(Table("hooks", columns, rows, empty=empty),))


def show_hook(view: View) -> Page:
    """One hook: who may send, and how a request becomes an event."""
    name = view.path["hook"]
    hooks = view.collect(lambda conn: [h for h in ingest.list_hooks(conn, namespace=view.namespace) if h.hook == name])
    if not hooks:
        raise UnknownHook(f"there is no hook {name!r} in namespace {view.namespace!r}")
    hook = hooks[0]
    facts = [
        ("Address", f"POST {hook_path(hook['namespace'], name)}"),
        ("Topic", hook["topic"]),
        ("Scheme", hook["scheme"]),
        ("Secrets", ", ".join(hook["secrets"])),
        ("Signed times count for", f"{hook['window_s']:g} s"),
        ("Created", hook["created_at"]),
        ("By", hook["created_by"]),
    ]
    values = {
        "hook": hook,
        "state": "active" if hook["active"] else "disabled",
        "facts": facts,
        "mapping": ingest.describe_mapping(hook["scheme"], hook["mapping"]),
        "base": f"/hooks/{quote(name, safe='')}",
    }
    return Page("hook.html", name, values=values)


def create_form(view: View) -> Page:
    topics = sorted({row["topic"] for row in view.collect(lambda conn: list_topics(conn, namespace=view.namespace))})
    # A secret that was typed in the place of its reference is not shown again.
    references = [word for word in view.form.get("secrets", "").replace(",", " ").split() if word.startswith(("env:", "file:"))]
    values = {
        "schemes": ingest.SCHEMES.names(),
        "topics": [topic for topic in topics if not topic.startswith("headrace.")],
        "secrets": ", ".join(references),
    }
    return Page("hook_create.html", "Create a hook", values=values, is_live=False)


def create(view: View) -> Done:
    """Creates a hook on every selected shard."""
    form = {name: value.strip() for name, value in view.form.items()}
    name = form.get("hook", "")
    secrets = form.get("secrets", "").replace(",", " ").split()
    mapping = _mapping(form.get("mapping", ""))

    def act(conn: Connection) -> None:
        scheme = form.get("scheme", "")
        ingest.create_hook(conn, name, form.get("topic", ""), scheme, secrets, mapping=mapping, namespace=view.namespace)

    # Secrets are not among the details: one may have been typed in the place of its reference.
    details = {"topic": form.get("topic"), "scheme": form.get("scheme"), "mapping": mapping}
    view.change("hook.create", name, act, details=details)
    return Done(f"hook {name} created", hook_url(view, name))


def _mapping(text: str) -> dict[str, str] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text else None
    except msgspec.DecodeError as error:
        raise Invalid(f"the mapping is not an object of texts in JSON: {error}") from None


def enable(view: View) -> Done:
    name = view.path["hook"]
    _change(view, "hook.enable", lambda conn: ingest.alter_hook(conn, name, active=True, namespace=view.namespace))
    return Done(f"hook {name} takes requests", hook_url(view, name))


def disable(view: View) -> Done:
    name = view.path["hook"]
    _change(view, "hook.disable", lambda conn: ingest.alter_hook(conn, name, active=False, namespace=view.namespace))
    return Done(f"hook {name} is disabled; servers reject its requests within 5 seconds", hook_url(view, name))


def drop(view: View) -> Done:
    """Drops a hook; its events stay."""
    name = view.path["hook"]
    _change(view, "hook.drop", lambda conn: ingest.drop_hook(conn, name, namespace=view.namespace))
    return Done(f"hook {name} dropped", view.url("/hooks"))


def _change(view: View, what: str, act: Callable[[Connection], None]) -> None:
    name = view.path["hook"]

    def state(conn: Connection) -> object:
        return [asdict(hook) for hook in ingest.list_hooks(conn, namespace=view.namespace) if hook.hook == name]

    view.change(what, name, act, state=state)


def hook_path(namespace: str, name: str) -> str:
    """The address below that of the HTTP server."""
    return (
        f"/hooks/{quote(name, safe='')}"
        if namespace == "default"
        else f"/hooks/{quote(namespace, safe='')}/{quote(name, safe='')}"
    )


def hook_url(view: View, name: str) -> str:
    return view.url(f"/hooks/{quote(name, safe='')}")


ROUTES = (
    read("/hooks", list_hooks),
    read("/hooks/-/create", create_form),
    change("/hooks/-/create", create, form=create_form),
    read("/hooks/{hook}", show_hook),
    change("/hooks/{hook}/enable", enable, form=show_hook),
    change("/hooks/{hook}/disable", disable, form=show_hook),
    change("/hooks/{hook}/drop", drop, form=show_hook),
)
