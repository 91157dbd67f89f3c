"""Publish an event, new or again; and snippets: a view or an event as SQL, Python, curl or a shell command, to be pasted elsewhere.

A snippet is quoted for the language it is in: an event's text must not become code where it is pasted. Control characters are
written as escapes: a terminal would act on them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
from psycopg import sql
from starlette.responses import Response
from uuid_utils.compat import uuid7

from headrace.core import JSON, Forbidden, Invalid, InvalidPayload, NotFound, RawJSON, StoredEvent, decode, safe_lines
from headrace.db import Connection, Shards, Target
from headrace.definitions import list_event_types
from headrace.lang.condition import ConditionError, decode_json, parse, to_postgres
from headrace.log.archive import REPLAY_HEADER, find_stored_range, read_stored_events_at
from headrace.log.outbox import publish
from headrace.log.topics import list_topics
from headrace.web.console.pages.event_search import Query, exact_json
from headrace.web.console.routes import change, read
from headrace.web.console.view import Done, Page, View

FIELDS = ("topic", "type", "key", "payload", "headers", "id")
PRODUCER = "headrace console"


def publish_form(view: View) -> Page | Response:
    """The form; with a position it is filled with that event."""
    fields = {name: view.form.get(name, "") for name in FIELDS}
    source = None
    if not view.form:
        fields |= {"topic": view.query.get("topic", ""), "type": view.query.get("type", ""), "payload": "{}"}
        if position := view.query.get("position", ""):
            source = _find_event(view, fields["topic"], position)
            fields |= _fields_of(view, fields["topic"], source)
    # The id is made here: a form that is sent twice publishes one event.
    fields["id"] = fields["id"] or str(uuid7())
    topics = sorted({row["topic"] for row in view.collect(lambda conn: list_topics(conn, namespace=view.namespace))})
    types = sorted({row["name"] for row in view.collect(lambda conn: list_event_types(conn, namespace=view.namespace))})
    snippets = publish_snippets(view, fields["topic"], fields["type"], fields["key"] or None, _one_line(fields["payload"]))
    values = {
        "fields": fields,
        "topics": topics,
        "types": types,
        "position": source.position if source else None,
        "snippets": snippets if fields["topic"] and fields["type"] else [],
        "rows": min(24, max(8, fields["payload"].count("\n") + 1)),
    }
    title = "Publish an event" if source is None else "Publish an event again"
    return Page("events_publish.html", title, values=values, is_live=False)


def publish_event(view: View) -> Done:
    """Publishes the event of the form, on the shard of its key."""
    form = view.form
    topic, kind, key = form.get("topic", "").strip(), form.get("type", "").strip(), form.get("key", "") or None
    event_id = _event_id(form.get("id", ""))
    payload, headers = _raw_json(form.get("payload", "")), _headers(form.get("headers", ""))

    def act(conn: Connection) -> UUID:
        return publish(
            conn, topic, kind, payload, key=key, headers=headers, id=event_id, producer=PRODUCER, namespace=view.namespace
        )

    target = _shard(view, key, event_id)
    details = {"topic": topic, "event_id": event_id, "type": kind, "key": key}
    view.change("event.publish", topic, act, details=details, targets=[target])
    chosen = {"shard": target.name} if len(view.shards) > 1 else {}
    return Done(f"event {event_id} published to {topic}", view.url(f"/events/{event_id}", **chosen))


def _find_event(view: View, topic: str, position: str) -> StoredEvent:
    if not position.isascii() or not position.isdigit() or len(position) > 18:
        raise Invalid(f"a position is a whole number, not {position!r}")

    def read_event(conn: Connection) -> StoredEvent | None:
        span = find_stored_range(conn, topic, namespace=view.namespace)
        return read_stored_events_at(conn, span, [int(position)]).get(int(position))

    for _, event in view.each_shard(read_event):
        if event is not None:
            return event
    raise NotFound(f"topic {topic!r} has no event at position {position}, neither in the log nor in the archive")


def _fields_of(view: View, topic: str, event: StoredEvent) -> dict[str, str]:
    payload = decode_json(event.payload)
    if view.mask(cast(JSON, payload)) != payload:
        raise Forbidden("this event has fields that are hidden from you; somebody who sees them must publish it again")
    headers = decode_json(event.headers)
    marked = {**(headers if isinstance(headers, dict) else {}), REPLAY_HEADER: f"{topic}/{event.position}"}
    return {"type": event.type, "key": event.key or "", "payload": exact_json(payload), "headers": exact_json(marked)}


def _one_line(text: str) -> str:
    try:
        return exact_json(decode_json(text), indent=False)
    except Invalid:
        return text


def _raw_json(text: str) -> RawJSON:
    """The payload exactly as it was typed, so that no digit is lost."""
    text = text.strip() or "null"
    decode(text)
    return msgspec.Raw(text.encode())


def _headers(text: str) -> Mapping[str, JSON]:
    headers = decode(text.strip() or "{}")
    if not isinstance(headers, Mapping):
        raise InvalidPayload('headers are a JSON object, such as {"source": "test"}')
    return headers


def _event_id(text: str) -> UUID:
    try:
        return UUID(text) if text.strip() else uuid7()
    except ValueError:
        raise Invalid(f"event id {text!r} is not a UUID; leave it empty for a new one") from None


def _shard(view: View, key: str | None, event_id: UUID) -> Target:
    """The shard of the key, whichever is selected: elsewhere its order would be lost. Without a key a selected shard, or any."""
    if key is not None:
        return Shards(list(view.site.databases.targets.values())).shard_of(key)
    return Shards(view.targets).shard_of(str(event_id))


@dataclass(frozen=True)
class Snippet:
    """A text to copy, and the language it is in."""

    label: str
    text: str


def read_snippets(view: View, words: Query) -> list[Snippet]:
    """Ways to read the events of a view."""
    return [
        Snippet("SQL", _read_sql(view, words)),
        Snippet("Python", _read_python(view, words)),
        Snippet("curl", _read_curl(view)),
        Snippet("Shell", _read_shell(view, words)),
    ]


def publish_snippets(view: View, topic: str, type: str, key: str | None, payload: str) -> list[Snippet]:
    """Ways to publish an event."""
    return [
        Snippet("SQL", _publish_sql(view, topic, type, key, payload)),
        Snippet("Python", _publish_python(view, topic, type, key, payload)),
        Snippet("curl", _publish_curl(view, topic, type, key, payload)),
        Snippet("Shell", _publish_shell(view, topic, type, key, payload)),
    ]


def _literal(text: str) -> str:
    """A literal of SQL; with control characters as `U&'…\\001B…'`."""
    if safe_lines(text) == text:
        return sql.Literal(text).as_string(None)
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return "U&'" + "".join(char if safe_lines(char) == char else f"\\+{ord(char):06X}" for char in quoted) + "'"


def _word(text: str) -> str:
    """A word of a shell; with control characters as `$'…\\u001b…'`."""
    if safe_lines(text) == text:
        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(char if safe_lines(char) == char else f"\\U{ord(char):08x}" for char in quoted) + "'"


def _read_sql(view: View, words: Query) -> str:
    lines = [
        "select l.position, l.event_id, l.type, l.key, l.payload, l.appended_at",
        "from headrace.log l",
        f"where l.topic_id = headrace.topic_id({_literal(words.topic)}, {_literal(view.namespace)})",
    ]
    if words.types:
        lines.append(f"    and l.type in ({', '.join(map(_literal, words.types))})")
    if words.key:
        lines.append(f"    and l.key = {_literal(words.key)}")
    for name, text, sign in (("from", words.start, ">="), ("before", words.before, "<")):
        if text.isdigit():
            lines.append(f"    and l.position {sign} {text}")
        elif text and text not in ("earliest", "latest"):
            lines.append(f"    and l.appended_at {sign} {_literal(text)}::timestamptz  -- {name}")
    if words.where and words.match != "all":
        lines.append(f"    and ({_condition_sql(words.where)})")
    lines += [f"order by l.position{'' if words.start else ' desc'}", f"limit {words.limit};"]
    return "\n".join(lines)


def _condition_sql(text: str) -> str:
    """The condition as the database evaluates it; `false` if it is not valid, which the page says."""
    try:
        return to_postgres(parse(text))
    except ConditionError:
        return "false"


def _read_python(view: View, words: Query) -> str:
    place = f"conn, {words.topic!r}, namespace={view.namespace!r}"
    imports = ["from headrace.lang.condition import parse, to_python"] if words.where else []
    if words.start.isdigit():
        after = str(max(0, int(words.start) - 1))
    elif words.start:
        imports.insert(0, "from headrace.consume import seek_position")
        after = f"seek_position(conn, {words.topic!r}, {words.start!r}, namespace={view.namespace!r})"
    elif words.before.isdigit():
        after = str(max(0, int(words.before) - 1 - words.limit))
    else:
        after = f"get_topic({place}).last_position - {words.limit}"
    names = "get_topic, read_log" if "get_topic" in after else "read_log"
    lines = [*imports, f"from headrace.log.topics import {names}", ""]
    lines.append(f"events = read_log(conn, {words.topic!r}, after={after}, limit={words.limit}, namespace={view.namespace!r})")
    tests = [f"event.type in {words.types!r}"] if words.types else []
    tests += [f"event.key == {words.key!r}"] if words.key else []
    if words.where:
        lines.append(f"is_true = to_python(parse({words.where!r}))")
        tests.append("is_true(event) is True")
    if tests:
        lines.append(f"events = [event for event in events if {' and '.join(tests)}]")
    return "\n".join(lines)


def _read_curl(view: View) -> str:
    url = f"{view.request.scope['scheme']}://{view.request.headers['host']}{view.page_path}"
    _, _, parameters = view.here(format="json", show=None).partition("?")
    words = ["curl", "-H", '"Authorization: Bearer $HEADRACE_TOKEN"'] if view.user.role else ["curl"]
    return " ".join([*words, shlex.quote(f"{url}?{parameters}")])


def _read_shell(view: View, words: Query) -> str:
    command = ["headrace", "tail", words.topic, "--namespace", view.namespace]
    command += [part for name in words.types for part in ("--type", name)]
    command += ["--key", words.key] if words.key else []
    command += ["--where", words.where] if words.where else []
    command += ["--from", words.start, "-n", str(words.limit)] if words.start else ["-n", str(words.limit)]
    return " ".join(map(_word, command))


def _publish_sql(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    parts = [_literal(topic), _literal(type), f"{_literal(payload)}::jsonb"]
    parts += [f"p_key => {_literal(key)}"] if key else []
    parts.append(f"p_namespace => {_literal(view.namespace)}")
    return f"select headrace.publish({', '.join(parts)});"


def _publish_python(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    parts = [f"conn, {topic!r}, {type!r}, RawJSON({payload.encode()!r})"]
    parts += [f"key={key!r}"] if key else []
    parts.append(f"namespace={view.namespace!r}")
    return f"from headrace import publish\nfrom headrace.core import RawJSON\n\npublish({', '.join(parts)})"


def _publish_curl(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    """By HTTP, with an access token of the namespace; this console takes events only if it was started with --ingest."""
    base = str(view.request.base_url).rstrip("/") + "/ingest" if view.site.settings.ingest else "http://127.0.0.1:8640"
    words = urlencode({"type": type, **({"key": key} if key else {})}, quote_via=quote)
    return " ".join(
        [
            "curl",
            _word(f"{base}/topics/{quote(topic, safe='')}/events?{words}"),
            '-H "Authorization: Bearer $TOKEN"',
            "-H 'Content-Type: application/json'",
            f"-d {_word(payload)}",
        ]
    )


def _publish_shell(view: View, topic: str, type: str, key: str | None, payload: str) -> str:
    command = ["headrace", "publish", topic, type, payload, "--namespace", view.namespace]
    return " ".join(map(_word, command + (["--key", key] if key else [])))


ROUTES = (read("/events/publish", publish_form), change("/events/publish", publish_event, form=publish_form))
