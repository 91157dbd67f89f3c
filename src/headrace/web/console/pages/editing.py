"""What the forms of rules and relays share: typed values, the plan, and applying it if nobody has changed the definition meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.responses import Response
from starlette.routing import Route

from headrace.core import Conflict, Invalid
from headrace.db import Connection
from headrace.definitions.schemas import Finding
from headrace.log.topics import list_topics
from headrace.web.console.pages.versions import FieldChange
from headrace.web.console.routes import Reader, change, read
from headrace.web.console.view import Done, Page, View

WHOLE_NUMBER_MAX = 9
"""Digits of a whole number."""


class Versioned(Protocol):
    """A stored definition: its version, and the file or program that manages it."""

    @property
    def version(self) -> int: ...

    @property
    def source(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What applying would change."""

    changes: Sequence[FieldChange]
    findings: Sequence[Finding]
    fields: Mapping[str, str]
    """As they were typed, for the form that applies them."""

    @property
    def is_empty(self) -> bool:
        return not self.changes


def editing_routes(path: str, *, create: Reader, edit: Reader, apply: Callable[[View], Done]) -> tuple[Route, ...]:
    """The routes of the forms below a path. After an error, applying shows the form again."""

    def form(view: View) -> Page | Response:
        return edit(view) if view.form.get("version") else create(view)

    return (read(f"{path}/-/create", create), read(f"{path}/-/edit", edit), change(f"{path}/-/apply", apply, form=form))


def topic_names(view: View) -> list[str]:
    """The topics of the namespace, on all selected shards."""
    return sorted({row["topic"] for row in view.collect(lambda conn: list_topics(conn, namespace=view.namespace))})


def is_typed(view: View) -> bool:
    """True if the person has filled in the form: its values are in the address of the plan, or were sent to apply it."""
    return bool(view.form) or "plan" in view.query


def typed_value(view: View, name: str) -> str:
    return view.form.get(name) or view.query.get(name, "")


def whole_number(text: str, name: str) -> int:
    """Raises Invalid for what is no whole number."""
    digits = text.strip().removeprefix("-")
    if not digits:
        return 0
    if not digits.isascii() or not digits.isdigit() or len(digits) > WHOLE_NUMBER_MAX:
        raise Invalid(f"{name} must be a whole number, not {text!r}")
    return int(text)


def apply_plan(
    view: View,
    noun: str,
    name: str,
    *,
    create: Callable[[Connection], object],
    get: Callable[[Connection], Versioned],
    alter: Callable[[Connection, str], object],
    state: Callable[[Connection], object],
) -> str:
    """Creates or alters a definition on every selected shard. `alter` gets the source, which stays: a definition of a file still belongs
    to it. Raises Conflict if the definition has another version than the plan was made for. Returns what was done."""
    version = view.form.get("version", "")

    def act(conn: Connection) -> None:
        if not version:
            create(conn)
            return
        stored = get(conn)
        if str(stored.version) != version:
            raise Conflict(
                f"{noun} {name} was changed meanwhile: it has version {stored.version}, the plan was made for {version}"
            )
        alter(conn, stored.source)

    view.change(f"{noun}.alter" if version else f"{noun}.create", name, act, state=state)
    return f"{noun} {name} {'changed' if version else 'created'}"
