"""View: one request of one person, with everything a page needs to answer it.

Promises: every change that it makes becomes an event of the topic `headrace.audit`, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from headrace.core import JSON, DatabaseUnavailable, Forbidden, Invalid, NotFound, UnknownTopic
from headrace.db import Connection, Target, list_namespaces
from headrace.definitions import list_event_types
from headrace.log.outbox import publish
from headrace.log.topics import create_topic, list_topics
from headrace.web.console.login import User
from headrace.web.console.site import Site
from headrace.web.console.tables import Row, Table, fetch_dicts, to_row
from headrace.web.console.texts import hidden_fields, mask_payload

P = ParamSpec("P")
T = TypeVar("T")

AUDIT_TOPIC = "headrace.audit"
PRODUCER = "headrace console"
AUDIT_KEY_BYTES_MAX = 500
DIGITS_MAX = 9
"""Digits of a whole number in a form."""


@dataclass(frozen=True)
class Page:
    """What a page function returns: a template, and the values for it. The first table is the one that `?format=csv` exports."""

    template: str
    title: str
    tables: Sequence[Table] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    is_live: bool = True
    """The block `live` of the template is renewed while the page is open."""


@dataclass(frozen=True)
class Done:
    """What a change returns: a sentence for the person, and the page that follows."""

    message: str
    url: str


class View:
    """One request: who asks, for which shards and which namespace."""

    def __init__(self, site: Site, request: Request, user: User | None, csrf: str, form: Mapping[str, str] | None = None) -> None:
        self.site = site
        self.request = request
        self.is_signed_in = user is not None
        self.user = user or User("nobody")
        self.csrf = csrf
        self.form = form or {}
        self.error: str | None = None
        """The message of a change that failed; the page shows it above its form."""
        self.unreachable: dict[str, str] = {}
        """Shards that did not answer, with the error."""

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, str]:
        """The parts of the path, by their names in the route."""
        return self.request.path_params

    @property
    def page_path(self) -> str:
        """The path of this page as a link has it. Not from request.url, which is built from the Host header."""
        return quote(str(self.request.scope["path"]))

    @property
    def is_read_only(self) -> bool:
        return self.site.settings.read_only or self.user.read_only

    @cached_property
    def namespaces(self) -> list[str]:
        """The namespaces that this person's role sees, on any shard."""

        def read() -> list[str]:
            found = self._each_shard(list_namespaces, lambda target: self._begin(target, read_only=True))
            return list(dict.fromkeys(row.namespace for _, rows in found for row in rows))

        return self.site.cached(("namespaces", self.user.role), 5.0, read)

    @cached_property
    def namespace(self) -> str:
        """The one of the URL; else `default`, or the first that the role sees."""
        if chosen := self.query.get("namespace"):
            return chosen
        return "default" if "default" in self.namespaces or not self.namespaces else self.namespaces[0]

    @property
    def shard(self) -> str | None:
        """The shard of the URL; None for all of them."""
        return self.query.get("shard") or None

    @property
    def targets(self) -> list[Target]:
        databases = self.site.databases
        return [databases.target(self.shard)] if self.shard else list(databases.targets.values())

    @property
    def shards(self) -> list[str]:
        return list(self.site.databases.targets)

    def bind(
        self, function: Callable[Concatenate[Connection, P], T], *arguments: P.args, **options: P.kwargs
    ) -> Callable[[Connection], T]:
        """A function of the library with all its arguments but the connection, in the namespace of this view."""
        return lambda conn: function(conn, *arguments, **options, namespace=self.namespace)  # type: ignore[arg-type]

    @contextmanager
    def reading(self, target: Target) -> Iterator[Connection]:
        """A read-only transaction on one shard, as the person's role."""
        with self._transaction(target, read_only=True) as conn:
            yield conn

    def each_shard(self, read: Callable[[Connection], T]) -> list[tuple[str, T]]:
        """Reads from every selected shard; one that is unreachable is left out and shown in a banner. At least one must answer."""
        return self._each_shard(read, lambda target: self._transaction(target, read_only=True))

    def _each_shard(
        self, read: Callable[[Connection], T], begin: Callable[[Target], AbstractContextManager[Connection]]
    ) -> list[tuple[str, T]]:
        results = []
        for target in self.targets:
            try:
                with begin(target) as conn:
                    results.append((target.name, read(conn)))
            except DatabaseUnavailable as error:
                self.unreachable[target.name] = str(error)
        if not results:
            raise DatabaseUnavailable("; ".join(self.unreachable.values()))
        return results

    def collect(self, read: Callable[[Connection], Sequence[object]]) -> list[Row]:
        """Rows of every selected shard, each with its field `shard`."""
        return [{"shard": shard, **to_row(value)} for shard, values in self.each_shard(read) for value in values]

    def fetch(self, statement: str, **parameters: object) -> list[Row]:
        """The rows of a statement of the console's own, as `collect` returns them."""
        return self.collect(lambda conn: fetch_dicts(conn, statement, namespace=self.namespace, **parameters))

    def find(self, get: Callable[[Connection], T]) -> tuple[Target, T]:
        """What the first selected shard that has it answers. Raises the NotFound of the last one."""
        *others, last = self.targets
        for target in others:
            try:
                with self.reading(target) as conn:
                    return target, get(conn)
            except NotFound:
                continue
        with self.reading(last) as conn:
            return last, get(conn)

    def topic_names(self) -> list[str]:
        """The topics of the namespace, on all selected shards."""
        return sorted({row["topic"] for row in self.collect(self.bind(list_topics))})

    def event_types(self) -> list[str]:
        """The registered types of events."""
        return sorted({row["name"] for row in self.collect(self.bind(list_event_types))})

    def text(self, name: str) -> str:
        """A field of the form, without blanks around it. A browser sends line breaks as CR LF."""
        return self.form.get(name, "").replace("\r\n", "\n").strip()

    def whole_number(self, name: str) -> int | None:
        """A field of the form; None if it is empty. Raises Invalid for what is no whole number."""
        text = self.text(name)
        digits = text.removeprefix("-")
        if text and (not digits.isascii() or not digits.isdigit() or len(digits) > DIGITS_MAX):
            raise Invalid(f"{name} must be a whole number, not {text!r}")
        return int(text) if text else None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """A field of the form; the first choice if it is empty. Raises Invalid for what is no choice."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise Invalid(f"{text!r} is not one of {', '.join(choices)}")
        return text

    def change(
        self,
        what: str,
        subject: str,
        act: Callable[[Connection], T],
        *,
        state: Callable[[Connection], object] | None = None,
        details: object = None,
        targets: Sequence[Target] | None = None,
    ) -> list[tuple[str, T]]:
        """Changes something on every selected shard, in one transaction each that also writes the audit event.

        `state` reads what is changed, before and after. Shards are changed one after the other: an error stops at the shard that
        reports it, and the message names those that were changed before."""
        results: list[tuple[str, T]] = []
        for target in targets or self.targets:
            try:
                with self._transaction(target, read_only=False) as conn:
                    before = state(conn) if state else None
                    result = act(conn)
                    after = state(conn) if state else None
                    states = {"before": before, "after": after, "details": details}
                    record_change(conn, self.user, what, subject, **states, namespace=self.namespace)
            except Exception as error:
                if results:
                    error.add_note(f"already changed on: {', '.join(shard for shard, _ in results)}")
                raise
            results.append((target.name, result))
        return results

    def preview(self, act: Callable[[Connection], T], *, targets: Sequence[Target] | None = None) -> list[tuple[str, T]]:
        """Runs something on every selected shard as the person's role, and rolls it back."""
        results = []
        for target in targets or self.targets:
            with self._transaction(target, read_only=False) as conn, conn.transaction(force_rollback=True):
                results.append((target.name, act(conn)))
        return results

    @property
    def hidden_fields(self) -> tuple[tuple[str, ...], ...]:
        """The fields of payloads that this person's role must not see."""
        return hidden_fields(self.site.settings.masks, self.user.role)

    def mask(self, payload: JSON) -> JSON:
        """A payload without the fields that this person's role must not see."""
        return mask_payload(payload, self.hidden_fields)

    def url(self, path: str, *names: str, **parameters: object) -> str:
        """The address of a page of the console, with the selected shard and namespace; `names` are further parts of the path."""
        chosen = {name: self.query[name] for name in ("namespace", "shard") if self.query.get(name)}
        words = {name: str(value) for name, value in {**chosen, **parameters}.items() if value not in (None, "")}
        base = str(self.request.scope.get("root_path", "")).rstrip("/")
        parts = "".join(f"/{quote(name, safe='')}" for name in names)
        return f"{base}{path}{parts}" + (f"?{urlencode(words)}" if words else "")

    def link(self, path: str, *fields: str) -> Callable[[Row], str]:
        """The page of a row of a table: `fields` of the row are further parts of the path."""
        return lambda row: self.url(path, *(str(row[field]) for field in fields))

    def on_shard(self, shard: str) -> dict[str, str]:
        """The parameter of an address that selects a shard, where there are several."""
        return {"shard": shard} if len(self.shards) > 1 else {}

    def here(self, **parameters: object) -> str:
        """The address of this view with other parameters; None removes one."""
        words = {name: value for name, value in self.query.items() if name != "live"}
        words |= {name: str(value) for name, value in parameters.items() if value is not None}
        for name, value in parameters.items():
            if value is None:
                words.pop(name, None)
        return self.page_path + (f"?{urlencode(words)}" if words else "")

    def static(self, name: str) -> str:
        return f"{str(self.request.scope.get('root_path', '')).rstrip('/')}/static/{name}"

    def samples_key(self, shard: str = "") -> tuple[str, ...]:
        """The key of this person's samples: what one role sees is not shown to another."""
        return (shard, self.user.role or "", self.namespace)

    def _transaction(self, target: Target, *, read_only: bool) -> AbstractContextManager[Connection]:
        # Before a connection is taken: whoever holds one and needs another to find the namespace waits for those who do the same.
        self.namespace  # noqa: B018
        return self._begin(target, read_only=read_only)

    def _begin(self, target: Target, *, read_only: bool) -> AbstractContextManager[Connection]:
        # A page without a login, such as the one to sign in, must not read with the console's own rights.
        if not self.is_signed_in:
            raise Forbidden("sign in first")
        return self.site.databases.transaction(target, self.user.role, read_only=read_only)


def record_change(
    conn: Connection,
    user: User,
    what: str,
    subject: str,
    *,
    before: object = None,
    after: object = None,
    details: object = None,
    namespace: str,
) -> None:
    """Writes the audit event of a change such as `consumer.pause` in the open transaction; creates the topic at the first use. Leaves the person's role.

    It is published with the console's own rights, not with those of the person: a person who may pause a consumer need not be allowed to
    publish, and a person who may publish cannot forge it here. No event, no change: if it cannot be published, all is rolled back."""
    conn.execute("select set_config('role', 'none', true)")
    who: dict[str, object] = {"who": user.name, "role": user.role, "what": what, "subject": subject}
    # Frozen values of the library, times and intervals as JSON.
    payload: JSON = msgspec.to_builtins({**who, "before": before, "after": after, "details": details})
    key = subject.encode()[:AUDIT_KEY_BYTES_MAX].decode(errors="ignore") or None
    record = partial(publish, conn, AUDIT_TOPIC, what, payload, key=key, producer=PRODUCER, namespace=namespace)
    try:
        try:
            with conn.transaction():
                record()
        except UnknownTopic:
            create_topic(conn, AUDIT_TOPIC, namespace=namespace)
            record()
    except Forbidden as error:
        raise Forbidden(
            f"the change was undone, because it could not be recorded in topic {AUDIT_TOPIC} of namespace {namespace}: {error}. "
            "The console's own role must be the owner of headrace or a node's role: see headrace.grant_node"
        ) from error
