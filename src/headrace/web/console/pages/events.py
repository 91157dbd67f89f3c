"""Events: the live end of a topic, or its events from a position or time on, with a filter, archive and log as one; publish an event,
new or again; and snippets: a view or an event as SQL, Python, curl or a shell command, to be pasted elsewhere.

A snippet is quoted for the language it is in: an event's text must not become code where it is pasted. Control characters are
written as escapes: a terminal would act on them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TypeAlias, cast
from urllib.parse import quote, urlencode
from uuid import UUID

from psycopg import sql
from starlette.responses import RedirectResponse, Response
from uuid_utils.compat import uuid7

from headrace.core import (
    JSON,
    STORED_COLUMNS,
    Forbidden,
    HeadraceError,
    Invalid,
    InvalidPayload,
    NotFound,
    StoredEvent,
    decode,
    raw_json,
    safe_lines,
)
from headrace.db import Connection, Shards, parse_time
from headrace.lang.condition import ConditionError, decode_json, explain, parse, to_postgres
from headrace.log.archive import REPLAY_HEADER, StoredRange, find_stored_range
from headrace.log.outbox import publish
from headrace.log.topics import list_topics
from headrace.web.console.pages.event_search import (
    LIMITS,
    EventFilter,
    EventReader,
    Query,
    ShownEvent,
    Slice,
    answer_text,
    clause_rows,
    exact_json,
    find_stored_event,
    parse_position,
    position_at,
)
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Row, Table
from headrace.web.console.view import PRODUCER, Done, Page, View

GROWTH_MAX = 5_000
"""If more events than this are new since the last look, the end of the log is read afresh."""
CELL_CHARS = 300


@dataclass
class Tail:
    """The newest events of one view, kept while consoles follow it: a renewal reads only what is new."""

    lock: Lock = field(default_factory=Lock)
    part: Slice | None = None


def list_events(view: View) -> Page | Response:
    topics = view.topic_names()
    words = Query.from_view(view)
    if not words.topic and topics:
        # The topic with the newest event; the console's own audit only if there is no other.
        dated = [row for row in view.collect(view.bind(list_topics)) if row["last_appended_at"] is not None]
        dated = [row for row in dated if not row["topic"].startswith("headrace.")]
        busiest = str(max(dated, key=lambda row: row["last_appended_at"])["topic"]) if dated else topics[0]
        return RedirectResponse(view.here(topic=busiest), status_code=303)
    parts: list[tuple[str, Slice]] = []
    try:
        condition = parse(words.where) if words.where else None
        rows = EventFilter(words.types, words.key or None, condition, with_others=words.match == "all")
        if words.topic:
            parts = view.each_shard(lambda conn: _read(view, conn, words, rows))
    except HeadraceError as error:
        # Shown above the filter, so that it can be corrected.
        view.error = str(error)
        rows = EventFilter()
    shown = [(shard, event) for shard, part in parts for event in part.events]
    if len(parts) > 1:
        shown.sort(key=lambda pair: pair[1].appended_at, reverse=not words.start)
    shown = shown[: words.limit]
    columns = [*(column.name for column in STORED_COLUMNS), *(["answer"] if rows.condition else [])]
    table = Table(
        "events", columns, [{"shard": shard, **event.values(), "answer": event.answer} for shard, event in shown], title="Events"
    )
    is_at_end = not words.before and all(part.next_position is None or not words.start for _, part in parts)
    values = {
        "words": words,
        "topics": topics,
        "types": view.event_types(),
        "limits": LIMITS,
        "rows": [_row(view, words, rows, shard, event) for shard, event in shown],
        "has_condition": rows.condition is not None,
        "has_hidden_fields": rows.condition is not None and bool(view.site.settings.masks),
        "progress": [_progress(view, words, shard, part, len(parts) > 1) for shard, part in parts],
        "snippets": read_snippets(view, words) if words.topic else [],
        "is_sharded": len(parts) > 1,
    }
    return Page("events.html", "Events", tables=(table,), values=values, is_live=is_at_end and not view.error)


def _read(view: View, conn: Connection, words: Query, rows: EventFilter) -> Slice:
    span = find_stored_range(conn, words.topic, namespace=view.namespace)
    reader = EventReader(view, conn, span, rows)
    if words.start:
        return reader.read(_position(view, conn, span, words.start), words.limit, descending=False)
    if words.before:
        return reader.read(_position(view, conn, span, words.before), words.limit, descending=True)
    return _newest(view, reader, span, words)


def _position(view: View, conn: Connection, span: StoredRange, text: str) -> int:
    """The position that a text names, cut to the topic's range."""
    if text in ("earliest", "latest"):
        return span.first if text == "earliest" else span.until
    if not text.isascii() or not text.isdigit():
        return position_at(conn, span, parse_time(conn, text))
    if len(view.targets) > 1:
        raise Invalid("each shard has its own positions; select a shard, or use a time")
    if len(text) > 18:
        raise Invalid(f"there is no position {text}; the topic has {span.first} to {span.until - 1}")
    return min(max(int(text), span.first), span.until)


def _newest(view: View, reader: EventReader, span: StoredRange, words: Query) -> Slice:
    """The end of the log. All consoles that follow the same view share it."""
    key = ("tail", span.topic_id, view.user.role, view.namespace, view.shard, repr(words))
    tail = view.site.cached((*key, span.first), 3_600.0, Tail)
    with tail.lock:
        before = tail.part
        if before is None or not 0 <= span.until - before.span.until <= GROWTH_MAX:
            tail.part = reader.read(span.until, words.limit, descending=True)
        elif span.until > before.span.until:
            grown = _grow(before, reader.read(before.span.until, GROWTH_MAX, descending=False), words.limit)
            tail.part = grown or reader.read(span.until, words.limit, descending=True)
        assert tail.part is not None
        return tail.part


def _grow(before: Slice, new: Slice, limit: int) -> Slice | None:
    """The newest events with those that came since; None if not all of them could be read in time."""
    if new.next_position is not None:
        return None
    events = [*reversed(new.events), *before.events]
    next_position = events[limit - 1].position if len(events) > limit else before.next_position
    return replace(
        before, span=new.span, events=events[:limit], searched=before.searched + new.searched, next_position=next_position
    )


def _row(view: View, words: Query, rows: EventFilter, shard: str, event: ShownEvent) -> Row:
    """What the template shows of an event. The row that is open also has the clauses of the condition and the whole payload."""
    address = f"{shard}/{event.position}" if len(view.shards) > 1 else str(event.position)
    is_open = words.show == address
    summary = exact_json(event.payload, indent=False)
    # The position leads to an event that only the archive has.
    archived = {"topic": words.topic, "position": event.position} if event.is_archived else {}
    return {
        "event": event,
        "shard": shard,
        "address": address,
        "url": view.url(f"/events/{event.event_id}", **view.on_shard(shard), **archived),
        "toggle": view.here(show=None if is_open else address),
        "is_open": is_open,
        "answer": answer_text(event.answer) if rows.condition else None,
        "summary": summary[:CELL_CHARS] + ("…" if len(summary) > CELL_CHARS else ""),
        "payload": exact_json(event.payload) if is_open else "",
        "headers": exact_json(dict(event.headers)) if is_open and event.headers else "",
        "clauses": clause_rows(explain(rows.condition, event.sample)) if is_open and rows.condition else [],
        "republish": view.url("/events/publish", topic=words.topic, position=event.position, **view.on_shard(shard)),
    }


def _progress(view: View, words: Query, shard: str, part: Slice, is_sharded: bool) -> Row:
    """How many events there are, how far the search came, and where it goes on."""
    span = part.span
    further = None
    if part.next_position is not None and not is_sharded:
        further = view.here(**{"from" if words.start else "before": part.next_position, "show": None})
    return {
        "shard": shard,
        "in_log": span.until - span.log_first,
        "in_archive": span.log_first - span.first,
        "shown": len(part.events),
        "searched": part.searched,
        "next_position": part.next_position,
        "further": further,
        "is_full": len(part.events) >= words.limit,
        "back": view.here(**{"from": None, "before": None, "show": None}) if words.start or words.before else None,
    }


FIELDS = ("topic", "type", "key", "payload", "headers", "id")


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
    payload = fields["payload"]
    with suppress(Invalid):
        payload = exact_json(decode_json(payload), indent=False)
    snippets = publish_snippets(view, fields["topic"], fields["type"], fields["key"] or None, payload)
    values = {
        "fields": fields,
        "topics": view.topic_names(),
        "types": view.event_types(),
        "position": source.position if source else None,
        "snippets": snippets if fields["topic"] and fields["type"] else [],
        "rows": min(24, max(8, fields["payload"].count("\n") + 1)),
    }
    title = "Publish an event" if source is None else "Publish an event again"
    return Page("events_publish.html", title, values=values, is_live=False)


def publish_event(view: View) -> Done:
    """Publishes the event of the form, on the shard of its key."""
    form = view.form
    topic, kind, key = view.text("topic"), view.text("type"), form.get("key", "") or None
    event_id = _read_id(form.get("id", ""))
    payload, headers = raw_json(form.get("payload", "").strip() or "null"), _headers(form.get("headers", ""))

    act = view.bind(publish, topic, kind, payload, key=key, headers=headers, id=event_id, producer=PRODUCER)
    # The shard of the key, whichever is selected: elsewhere its order would be lost. Without a key a selected shard, or any.
    shards = view.targets if key is None else list(view.site.databases.targets.values())
    target = Shards(shards).shard_of(str(event_id) if key is None else key)
    details = {"topic": topic, "event_id": event_id, "type": kind, "key": key}
    view.change("event.publish", topic, act, details=details, targets=[target])
    return Done(f"event {event_id} published to {topic}", view.url(f"/events/{event_id}", **view.on_shard(target.name)))


def _find_event(view: View, topic: str, text: str) -> StoredEvent:
    position = parse_position(text)
    if position is None:
        raise Invalid(f"a position is a whole number, not {text!r}")
    if (found := find_stored_event(view, topic, position)) is None:
        raise NotFound(f"topic {topic!r} has no event at position {position}, neither in the log nor in the archive")
    return found[1]


def _fields_of(view: View, topic: str, event: StoredEvent) -> dict[str, str]:
    payload = decode_json(event.payload)
    if view.mask(cast(JSON, payload)) != payload:
        raise Forbidden("this event has fields that are hidden from you; somebody who sees them must publish it again")
    headers = decode_json(event.headers)
    marked = {**(headers if isinstance(headers, dict) else {}), REPLAY_HEADER: f"{topic}/{event.position}"}
    return {"type": event.type, "key": event.key or "", "payload": exact_json(payload), "headers": exact_json(marked)}


def _headers(text: str) -> Mapping[str, JSON]:
    headers = decode(text.strip() or "{}")
    if not isinstance(headers, Mapping):
        raise InvalidPayload('headers are a JSON object, such as {"source": "test"}')
    return headers


def _read_id(text: str) -> UUID:
    try:
        return UUID(text) if text.strip() else uuid7()
    except ValueError:
        raise Invalid(f"event id {text!r} is not a UUID; leave it empty for a new one") from None


Snippet: TypeAlias = tuple[str, str]
"""The language of a text to copy, and the text."""


def read_snippets(view: View, words: Query) -> list[Snippet]:
    url = f"{view.request.scope['scheme']}://{view.request.headers['host']}{view.page_path}"
    _, _, parameters = view.here(format="json", show=None).partition("?")
    curl = ["curl", "-H", '"Authorization: Bearer $HEADRACE_TOKEN"'] if view.user.role else ["curl"]
    shell = ["headrace", "tail", words.topic, "--namespace", view.namespace]
    shell += [part for name in words.types for part in ("--type", name)]
    shell += ["--key", words.key] if words.key else []
    shell += ["--where", words.where] if words.where else []
    shell += ["--from", words.start, "-n", str(words.limit)] if words.start else ["-n", str(words.limit)]
    return [
        ("SQL", _read_sql(view, words)),
        ("Python", _read_python(view, words)),
        ("curl", " ".join([*curl, shlex.quote(f"{url}?{parameters}")])),
        ("Shell", " ".join(map(_word, shell))),
    ]


def publish_snippets(view: View, topic: str, type: str, key: str | None, payload: str) -> list[Snippet]:
    """Ways to publish an event. By HTTP it needs an access token of the namespace; this console takes events only if it was started with
    --ingest."""
    in_sql = [_literal(topic), _literal(type), f"{_literal(payload)}::jsonb", *([f"p_key => {_literal(key)}"] if key else [])]
    in_python = [f"conn, {topic!r}, {type!r}, RawJSON({payload.encode()!r})", *([f"key={key!r}"] if key else [])]
    call = f"publish({', '.join(in_python)}, namespace={view.namespace!r})"
    base = str(view.request.base_url).rstrip("/") + "/ingest" if view.site.settings.ingest else "http://127.0.0.1:8640"
    words = urlencode({"type": type, **({"key": key} if key else {})}, quote_via=quote)
    curl = ["curl", _word(f"{base}/topics/{quote(topic, safe='')}/events?{words}"), '-H "Authorization: Bearer $TOKEN"']
    curl += ["-H 'Content-Type: application/json'", f"-d {_word(payload)}"]
    shell = ["headrace", "publish", topic, type, payload, "--namespace", view.namespace, *(["--key", key] if key else [])]
    return [
        ("SQL", f"select headrace.publish({', '.join(in_sql)}, p_namespace => {_literal(view.namespace)});"),
        ("Python", f"from headrace import publish\nfrom headrace.core import RawJSON\n\n{call}"),
        ("curl", " ".join(curl)),
        ("Shell", " ".join(map(_word, shell))),
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
    condition = "false"
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
        # `false` for one that is not valid, which the page says.
        with suppress(ConditionError):
            condition = to_postgres(parse(words.where))
        lines.append(f"    and ({condition})")
    lines += [f"order by l.position{'' if words.start else ' desc'}", f"limit {words.limit};"]
    return "\n".join(lines)


def _read_python(view: View, words: Query) -> str:
    arguments = f"conn, {words.topic!r}, namespace={view.namespace!r}"
    imports = ["from headrace.lang.condition import parse, to_python"] if words.where else []
    if words.start.isdigit():
        after = str(max(0, int(words.start) - 1))
    elif words.start:
        imports.insert(0, "from headrace.consume import seek_position")
        after = f"seek_position(conn, {words.topic!r}, {words.start!r}, namespace={view.namespace!r})"
    elif words.before.isdigit():
        after = str(max(0, int(words.before) - 1 - words.limit))
    else:
        after = f"get_topic({arguments}).last_position - {words.limit}"
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


ROUTES = (
    read("/events", list_events),
    read("/events/publish", publish_form),
    change("/events/publish", publish_event, form=publish_form),
)
