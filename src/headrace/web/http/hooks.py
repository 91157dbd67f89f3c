"""Hooks: created, changed, dropped and listed by administrators of a namespace."""

from __future__ import annotations

from collections.abc import Mapping as JsonObject, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.core import Invalid, InvalidHook, UnknownHook, encode, parse_reference
from headrace.db import Connection, fetch_rows, fetch_value, query
from headrace.web.http.schemes import parse_mapping

WINDOW_S = 300.0


@dataclass(frozen=True)
class Hook:
    """An address for webhooks of another system: /hooks/<namespace>/<hook>."""

    hook_id: int
    namespace: str
    hook: str
    topic: str
    scheme: str
    """How the sender proves who it is: standard-webhooks, github, stripe, token, or a scheme of another package."""
    secrets: Sequence[str]
    """References, such as env:GITHUB or file:github; any of them may have signed."""
    mapping: JsonObject[str, str]
    """How a request becomes an event; what is missing comes from the mapping of the scheme."""
    window_s: float
    """Seconds for which a signed time counts."""
    active: bool
    created_at: datetime
    created_by: str


def create_hook(
    conn: Connection,
    hook: str,
    topic: str,
    scheme: str,
    secrets: Sequence[str],
    *,
    mapping: JsonObject[str, str] | None = None,
    window_s: float = WINDOW_S,
    namespace: str | None = None,
) -> None:
    """Creates a hook. Raises HookExists, UnknownTopic, InvalidHook, and PackageMissing for a scheme that is not here."""
    _check(scheme, secrets, mapping or {})
    fetch_value(
        conn,
        """select headrace.create_hook(p_hook => %s, p_topic => %s, p_scheme => %s, p_secrets => %s, p_mapping => %s::text::jsonb,
            p_window_s => %s, p_namespace => %s)""",
        (hook, topic, scheme, list(secrets), encode(mapping or {}), window_s, namespace),
    )


def alter_hook(
    conn: Connection,
    hook: str,
    *,
    topic: str | None = None,
    secrets: Sequence[str] | None = None,
    mapping: JsonObject[str, str] | None = None,
    window_s: float | None = None,
    active: bool | None = None,
    namespace: str | None = None,
) -> None:
    """Changes a hook; None keeps a value. Raises UnknownHook, UnknownTopic, InvalidHook or PackageMissing."""
    _check(get_hook(conn, hook, namespace=namespace).scheme, secrets, mapping)
    fetch_value(
        conn,
        """select headrace.alter_hook(p_hook => %s, p_topic => %s, p_secrets => %s, p_mapping => %s::text::jsonb, p_window_s => %s,
            p_active => %s, p_namespace => %s)""",
        (hook, topic, secrets and list(secrets), None if mapping is None else encode(mapping), window_s, active, namespace),
    )


def drop_hook(conn: Connection, hook: str, *, namespace: str | None = None) -> None:
    """Drops a hook; its events stay. Raises UnknownHook."""
    fetch_value(conn, "select headrace.drop_hook(%s, %s)", (hook, namespace))


def list_hooks(conn: Connection, *, namespace: str | None = None) -> list[Hook]:
    """The hooks of a namespace, by name."""
    return fetch_rows(conn, Hook, query("web/http/hooks"), {"namespace": namespace, "hook": None})


def get_hook(conn: Connection, hook: str, *, namespace: str | None = None) -> Hook:
    """One hook. Raises UnknownHook."""
    rows = fetch_rows(conn, Hook, query("web/http/hooks"), {"namespace": namespace, "hook": hook})
    if not rows:
        raise UnknownHook(f"there is no hook {hook!r} in this namespace; see: headrace hook list")
    return rows[0]


def _check(scheme: str, secrets: Sequence[str] | None, mapping: JsonObject[str, str] | None) -> None:
    """Before anything is sent: a secret that was given in the place of its reference must not reach the server's log."""
    for reference in secrets or ():
        try:
            parse_reference(reference)
        except Invalid as error:
            raise InvalidHook(str(error)) from None
    if mapping is not None:
        parse_mapping(scheme, mapping)
