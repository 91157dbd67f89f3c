"""Access tokens of HTTP: who may publish and read, since when, until when; create, with the token shown once, and revoke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import cast, get_args

from headrace.core import Invalid
from headrace.db import Connection
from headrace.web import http as ingest
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import Done, Page, View

DAYS_MAX = 3650


def list_tokens(view: View) -> Page:
    """All access tokens of the namespace, also revoked ones."""
    rows = [_row(row) for row in view.collect(lambda conn: ingest.list_access_tokens(conn, namespace=view.namespace))]
    columns = (
        Column("name", "token"),
        Column("state", kind="state"),
        Column("rights"),
        Column("topics", wide=True),
        Column("event_types", "event types", wide=True),
        Column("rate_per_s", "requests per s", kind="number", wide=True),
        Column("expires_at", "expires", kind="time"),
        Column("last_used_at", "last used", kind="time", hint="Recorded once a minute"),
        Column("created_at", "created", kind="time", wide=True),
        Column("created_by", "by", wide=True),
    )
    empty = "headrace token create shop --publish --topic orders --type 'order.*' --days 90"
    table = Table("access_tokens", columns, rows, empty=empty)
    return Page("access_tokens.html", "Access tokens", tables=(table,), values={"base": "/access-tokens"})


def _row(row: Row) -> Row:
    now = datetime.now(UTC)
    is_expired = row["expires_at"] is not None and row["expires_at"] <= now
    return {
        **row,
        "state": "revoked" if row["revoked_at"] else "expired" if is_expired else "active",
        "rights": ", ".join(row["rights"]),
        "topics": _names(row["topics"]),
        "event_types": _names(row["event_types"]),
    }


def _names(names: Sequence[str] | None) -> str:
    return "all" if names is None else ", ".join(names)


def create_form(view: View) -> Page:
    return Page("access_token_create.html", "Create an access token", values={"token": None}, is_live=False)


def create(view: View) -> Page:
    """Creates an access token, the same on every shard, and shows it. It cannot be shown again."""
    form = {name: value.strip() for name, value in view.form.items()}
    name = form.get("name", "")
    rights = [cast(ingest.Right, right) for right in get_args(ingest.Right) if form.get(right) == "yes"]
    limits = {"topics": _list(form.get("topics", "")), "event_types": _list(form.get("event_types", ""))}
    expires_at = _expires_at(form.get("days", ""))
    rate_per_s = _rate(form.get("rate_per_s", ""))
    token = ingest.NewAccessToken.generate()

    def act(conn: Connection) -> None:
        ingest.create_access_token(
            conn, name, rights, **limits, expires_at=expires_at, rate_per_s=rate_per_s, token=token, namespace=view.namespace
        )

    details = {"rights": rights, **limits, "expires_at": expires_at, "rate_per_s": rate_per_s}
    view.change("access_token.create", name, act, details=details)
    values = {"token": token.token, "name": name}
    return Page("access_token_create.html", f"Access token {name}", values=values, is_live=False)


def _list(text: str) -> list[str] | None:
    names = [name.strip() for name in text.replace("\n", ",").split(",") if name.strip()]
    return names or None


def _expires_at(days: str) -> datetime | None:
    if not days:
        return None
    if not (days.isascii() and days.isdigit() and 1 <= int(days) <= DAYS_MAX):
        raise Invalid(f"days is {days!r}, not a number from 1 to {DAYS_MAX}; leave it empty for a token without end")
    return datetime.now(UTC) + timedelta(days=int(days))


def _rate(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise Invalid(f"requests per second is {text!r}, not a number; leave it empty for the server's own limit") from None


def revoke(view: View) -> Done:
    """Ends a token on every selected shard."""
    name = view.path["token"]

    def state(conn: Connection) -> object:
        tokens = ingest.list_access_tokens(conn, namespace=view.namespace)
        return [asdict(token) for token in tokens if token.name == name and token.revoked_at is None]

    view.change(
        "access_token.revoke", name, lambda conn: ingest.revoke_access_token(conn, name, namespace=view.namespace), state=state
    )
    return Done(f"token {name} is revoked; servers reject it within 5 seconds", view.url("/access-tokens"))


ROUTES = (
    read("/access-tokens", list_tokens),
    read("/access-tokens/-/create", create_form),
    change("/access-tokens/-/create", create, form=create_form),
    change("/access-tokens/{token}/revoke", revoke, form=list_tokens),
)
