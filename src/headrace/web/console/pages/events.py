"""Events: the live end of a topic, or its events from a position or time on, with a filter. Archive and log as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from headrace.core import STORED_COLUMNS, HeadraceError, Invalid
from headrace.db import Connection, parse_time
from headrace.definitions import list_event_types
from headrace.lang.condition import explain, parse
from headrace.log.archive import StoredRange, find_stored_range
from headrace.log.topics import list_topics
from headrace.web.console.pages import event_publishing
from headrace.web.console.pages.event_publishing import read_snippets
from headrace.web.console.pages.event_search import (
    LIMITS,
    AnswerText,
    EventFilter,
    EventReader,
    Query,
    ShownEvent,
    Slice,
    answer_text,
    clause_rows,
    exact_json,
    position_at,
)
from headrace.web.console.routes import read
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import Page, View

GROWTH_MAX = 5_000
"""If more events than this are new since the last look, the end of the log is read afresh."""
CELL_CHARS = 300


@dataclass
class Tail:
    """The newest events of one view, kept while consoles follow it: a renewal reads only what is new."""

    lock: Lock = field(default_factory=Lock)
    part: Slice | None = None


@dataclass(frozen=True)
class ShardPart:
    """What one shard brought, and where the search started."""

    shard: str
    part: Slice
    start: int | None


def list_events(view: View) -> Page | Response:
    """The events of a topic that pass a filter."""
    topics = sorted({row["topic"] for row in view.collect(lambda conn: list_topics(conn, namespace=view.namespace))})
    words = Query.from_view(view)
    if not words.topic and topics:
        return RedirectResponse(view.here(topic=_busiest(view, topics)), status_code=303)
    parts: list[ShardPart] = []
    try:
        rows = _filter(words)
        if words.topic:
            parts = [ShardPart(shard, *result) for shard, result in view.each_shard(lambda conn: _read(view, conn, words, rows))]
    except HeadraceError as error:
        # Shown above the filter, so that it can be corrected.
        view.error = str(error)
        rows = EventFilter()
    shown = _merge(parts, words)
    table = Table("events", _columns(rows), [_export_row(shard, event) for shard, event in shown], title="Events")
    is_at_end = not words.before and all(part.part.next_position is None or not words.start for part in parts)
    values = {
        "words": words,
        "topics": topics,
        "types": _types(view),
        "limits": LIMITS,
        "rows": [_row(view, words, rows, shard, event) for shard, event in shown],
        "has_condition": rows.condition is not None,
        "has_hidden_fields": rows.condition is not None and bool(view.site.settings.masks),
        "progress": [_progress(view, words, part, len(parts) > 1) for part in parts],
        "snippets": read_snippets(view, words) if words.topic else [],
        "is_sharded": len(parts) > 1,
    }
    return Page("events.html", "Events", tables=(table,), values=values, is_live=is_at_end and not view.error)


def _busiest(view: View, topics: Sequence[str]) -> str:
    """The topic with the newest event; the console's own audit only if there is no other."""
    rows = view.collect(lambda conn: list_topics(conn, namespace=view.namespace))
    dated = [row for row in rows if row["last_appended_at"] is not None and not row["topic"].startswith("headrace.")]
    return str(max(dated, key=lambda row: row["last_appended_at"])["topic"]) if dated else topics[0]


def _types(view: View) -> list[str]:
    names = view.collect(lambda conn: list_event_types(conn, namespace=view.namespace))
    return sorted({row["name"] for row in names})


def _filter(words: Query) -> EventFilter:
    condition = parse(words.where) if words.where else None
    return EventFilter(words.types, words.key or None, condition, with_others=words.match == "all")


def _read(view: View, conn: Connection, words: Query, rows: EventFilter) -> tuple[Slice, int | None]:
    span = find_stored_range(conn, words.topic, namespace=view.namespace)
    reader = EventReader(view, conn, span, rows)
    if words.start:
        start = _position(conn, span, words.start, is_sharded=len(view.targets) > 1)
        return reader.forward(start, words.limit), start
    if words.before:
        before = _position(conn, span, words.before, is_sharded=len(view.targets) > 1)
        return reader.backward(before, words.limit), before
    return _newest(view, reader, span, words), None


def _position(conn: Connection, span: StoredRange, text: str, *, is_sharded: bool) -> int:
    """The position that a text names, cut to the topic's range."""
    if text in ("earliest", "latest"):
        return span.first if text == "earliest" else span.until
    if not text.isascii() or not text.isdigit():
        return position_at(conn, span, parse_time(conn, text))
    if is_sharded:
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
            tail.part = reader.backward(span.until, words.limit)
        elif span.until > before.span.until:
            grown = _grow(before, reader.forward(before.span.until, GROWTH_MAX), words.limit)
            tail.part = grown or reader.backward(span.until, words.limit)
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


def _merge(parts: Sequence[ShardPart], words: Query) -> list[tuple[str, ShownEvent]]:
    """Events of all shards, in the order of their times."""
    events = [(part.shard, event) for part in parts for event in part.part.events]
    if len(parts) > 1:
        events.sort(key=lambda pair: pair[1].appended_at, reverse=not words.start)
    return events[: words.limit]


def _columns(rows: EventFilter) -> tuple[Column, ...]:
    names = (column.name for column in STORED_COLUMNS)
    return tuple(Column(name) for name in (*names, *(("answer",) if rows.condition else ())))


def _export_row(shard: str, event: ShownEvent) -> Row:
    return {"shard": shard, **event.values(), "answer": event.answer}


def _row(view: View, words: Query, rows: EventFilter, shard: str, event: ShownEvent) -> Row:
    """What the template shows of an event. The row that is open also has the clauses of the condition and the whole payload."""
    place = f"{shard}/{event.position}" if len(view.shards) > 1 else str(event.position)
    is_open = words.show == place
    answer: AnswerText | None = answer_text(event.answer) if rows.condition else None
    summary = exact_json(event.payload, indent=False)
    return {
        "event": event,
        "shard": shard,
        "place": place,
        "url": event_url(view, words.topic, shard, event),
        "toggle": view.here(show=None if is_open else place),
        "is_open": is_open,
        "answer": answer,
        "summary": summary[:CELL_CHARS] + ("…" if len(summary) > CELL_CHARS else ""),
        "payload": exact_json(event.payload) if is_open else "",
        "headers": exact_json(dict(event.headers)) if is_open and event.headers else "",
        "clauses": clause_rows(explain(rows.condition, event.sample)) if is_open and rows.condition else [],
        "republish": republish_url(view, words.topic, shard, event),
    }


def event_url(view: View, topic: str, shard: str, event: ShownEvent) -> str:
    """The page of an event. The position leads to it when only the archive has it."""
    place = {"topic": topic, "position": event.position} if event.is_archived else {}
    return view.url(f"/events/{quote(str(event.event_id))}", **({"shard": shard} if len(view.shards) > 1 else {}), **place)


def republish_url(view: View, topic: str, shard: str, event: ShownEvent) -> str:
    chosen = {"shard": shard} if len(view.shards) > 1 else {}
    return view.url("/events/publish", topic=topic, position=event.position, **chosen)


def _progress(view: View, words: Query, result: ShardPart, is_sharded: bool) -> Row:
    """How many events there are, how far the search came, and where it goes on."""
    part, span = result.part, result.part.span
    newest, oldest = (0, -1) if words.start else (-1, 0)
    further = None
    if part.next_position is not None and not is_sharded:
        further = view.here(**{"from" if words.start else "before": part.next_position, "show": None})
    return {
        "shard": result.shard,
        "in_log": span.until - span.log_first,
        "in_archive": span.log_first - span.first,
        "first": span.first,
        "last": span.until - 1,
        "shown": len(part.events),
        "searched": part.searched,
        "next_position": part.next_position,
        "further": further,
        "is_full": len(part.events) >= words.limit,
        "back": view.here(**{"from": None, "before": None, "show": None}) if words.start or words.before else None,
        "newest": part.events[newest].position if part.events else None,
        "oldest": part.events[oldest].position if part.events else None,
    }


ROUTES = (read("/events", list_events), *event_publishing.ROUTES)
