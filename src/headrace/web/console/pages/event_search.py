"""Event search: the query of the events page, and the reader that answers it: archive and log as one, from a position, backwards or forwards, with a filter.

Promises: a page costs a limited time of the database, however rare the events are that pass the filter. The reader stops after
that time and says how far it came, so that the person can search further."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from typing import Any, cast

import msgspec
from psycopg.rows import class_row

from headrace.core import JSON, StoredEvent, safe_json
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import (
    ClauseValue,
    Condition,
    ConditionError,
    Json,
    Sample,
    decode_json,
    jsonb_text,
    parse,
    to_python,
)
from headrace.log.archive import (
    RowFilter,
    StoredRange,
    find_position_at,
    find_stored_range,
    read_stored_events,
    read_stored_events_at,
)
from headrace.web.console.tables import Row
from headrace.web.console.view import View

LIMITS = (50, 100, 200, 500)
SEARCH_S = 0.1
"""A search ends after this time of the database."""
EVALUATION_S = 0.4
"""A search with a condition, which Python evaluates, ends after this time."""
FIRST_WINDOW = 1_000
WINDOW_MAX = 64_000
"""So many positions are searched by one statement."""
FETCH_BYTES = 2_000_000
FETCH_MAX = 2_000
LARGE_BYTES = 4_000_000
"""A search that has read this much may end before its first window does."""
ARCHIVE_WINDOW_MAX = 8_000
POSITION_DIGITS_MAX = 18
OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Query:
    """What the address of the events page asks for."""

    topic: str
    types: tuple[str, ...]
    key: str
    where: str
    match: str
    """`all` shows also the events for which the condition is not true."""
    start: str
    """A position or time: oldest first from there on. Empty: newest first."""
    before: str
    limit: int
    show: str
    """The event that is open: its position; shard/position where there are several shards."""

    @classmethod
    def from_view(cls, view: View) -> Query:
        get = view.query.get
        types = tuple(dict.fromkeys(name for name in get("type", "").replace(",", " ").split() if name))
        limit = get("limit", "")
        return cls(
            topic=get("topic", ""),
            types=types,
            key=get("key", ""),
            where=get("where", "").strip(),
            match="all" if get("match") == "all" else "",
            start=get("from", "").strip(),
            before=get("before", "").strip(),
            limit=int(limit) if limit in map(str, LIMITS) else LIMITS[0],
            show=get("show", ""),
        )


@dataclass(frozen=True)
class EventFilter:
    types: tuple[str, ...] = ()
    key: str | None = None
    condition: Condition | None = None
    with_others: bool = False
    """Events for which the condition is not true are shown too, with its answer."""


@dataclass(frozen=True)
class ShownEvent(StoredEvent[Json, Mapping[str, Json]]):
    """An event in a page. Payload and headers are exact, and without the fields that the person must not see."""

    is_archived: bool = False
    """True for an event that comes from the archive."""
    answer: bool | None = None
    """Of the condition; None for unknown."""

    @property
    def sample(self) -> Sample:
        """The event as a condition sees it."""
        return Sample(payload=self.payload, type=self.type, key=self.key, headers=self.headers, emitted_at=self.emitted_at)


@dataclass
class Slice:
    span: StoredRange
    """The whole topic: archive and log."""
    events: list[ShownEvent] = field(default_factory=list)
    searched: int = 0
    """How many positions were searched."""
    next_position: int | None = None
    """Where the search goes on; None at the end of the topic."""


class EventReader:
    """Reads one topic of one shard, for one person."""

    def __init__(self, view: View, conn: Connection, span: StoredRange, rows: EventFilter) -> None:
        self._view = view
        self._conn = conn
        self._span = span
        self._filter = rows
        self._evaluate = to_python(rows.condition) if rows.condition else None
        self._database_s = 0.0
        self._bytes = 0
        self._windows = 0
        self._start = monotonic()

    def read(self, start: int, limit: int, *, descending: bool) -> Slice:
        """At most `limit` events: before a position, newest first; or from it on, oldest first."""
        span, result = self._span, Slice(self._span)
        at, end = (min(start, span.until), span.first) if descending else (max(start, span.first), span.until)
        window, begin = self._first_window(limit), at
        while (at > end if descending else at < end) and len(result.events) < limit and not self._is_late:
            is_archived = at <= span.log_first if descending else at < span.log_first
            window = min(window, ARCHIVE_WINDOW_MAX if is_archived else WINDOW_MAX)
            if descending:
                part = replace(span, first=max(at - window, span.first if is_archived else span.log_first), until=at)
            else:
                part = replace(span, first=at, until=min(at + window, span.log_first if is_archived else span.until))
            at = self._collect(part, result, limit, descending=descending)
            window *= 4
        result.searched = abs(begin - at)
        result.next_position = at if (at > end if descending else at < end) else None
        return result

    @property
    def _is_late(self) -> bool:
        """The first window is always searched, so that a slow moment does not empty the page; unless its events are large."""
        is_over = self._database_s > SEARCH_S or monotonic() - self._start > EVALUATION_S
        return is_over and (self._windows > 0 or self._bytes > LARGE_BYTES)

    def _first_window(self, limit: int) -> int:
        is_selective = self._filter.types or self._filter.key is not None or self._filter.condition
        return FIRST_WINDOW if is_selective else limit

    def _collect(self, part: StoredRange, result: Slice, limit: int, *, descending: bool) -> int:
        """Adds the events of a part that pass; returns where the search goes on."""
        is_archived = part.first < self._span.log_first
        for rows in self._archived_rows(part, descending) if is_archived else self._log_rows(part, descending):
            for row in rows:
                event = self._show(row)
                if event is not None:
                    result.events.append(event)
                if len(result.events) >= limit:
                    return row.position if descending else row.position + 1
            if rows and self._is_late:
                return rows[-1].position if descending else rows[-1].position + 1
        self._windows += 1
        return part.first if descending else part.until

    def _log_rows(self, part: StoredRange, descending: bool) -> Iterator[list[StoredEvent]]:
        """Rows in small steps first: an event may have 1 MB."""
        statement = query("log/archive/events").format(direction="desc" if descending else "asc")
        parameters = {
            "topic_id": part.topic_id,
            "first": part.first,
            "until": part.until,
            "types": list(self._filter.types) or None,
            "keys": None if self._filter.key is None else [self._filter.key],
            "limit": None,
        }
        with map_database_errors(), self._conn.cursor("events", row_factory=class_row(StoredEvent)) as cursor:
            started = monotonic()
            cursor.execute(statement, parameters)
            size = 10
            while True:
                rows = cursor.fetchmany(size)
                self._database_s += monotonic() - started
                yield rows
                if len(rows) < size:
                    return
                row_bytes = sum(len(row.payload) for row in rows)
                self._bytes += row_bytes
                size = max(1, min(size * 10, FETCH_MAX, int(FETCH_BYTES * len(rows) / (row_bytes + 1))))
                started = monotonic()

    def _archived_rows(self, part: StoredRange, descending: bool) -> Iterator[list[StoredEvent]]:
        keys = (self._filter.key,) if self._filter.key is not None else None
        rows = RowFilter(types=self._filter.types or None, keys=keys)
        batches = read_stored_events(self._conn, part, rows=rows)
        # Files are read forwards; a window of them fits in memory.
        yield from ([[row for batch in list(batches)[::-1] for row in batch[::-1]]] if descending else batches)

    def _show(self, row: StoredEvent) -> ShownEvent | None:
        event = to_shown(self._view, row, is_archived=row.position < self._span.log_first)
        if self._evaluate is None:
            return event
        # Over the payload without hidden fields: a condition must not tell what is in them.
        answer = self._evaluate(event.sample)
        return replace(event, answer=answer) if answer is True or self._filter.with_others else None


def to_shown(view: View, row: StoredEvent, *, is_archived: bool) -> ShownEvent:
    """A stored event with exact numbers, masked for the person."""
    payload = cast(Json, view.mask(cast(JSON, decode_json(row.payload))))
    headers = decode_json(row.headers)
    masked = {"payload": payload, "headers": headers if isinstance(headers, dict) else {}}
    return ShownEvent(**(row.values() | masked), is_archived=is_archived)


def parse_position(text: str) -> int | None:
    """A position as it was typed; None for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= POSITION_DIGITS_MAX else None


def find_stored_event(view: View, topic: str, position: int) -> tuple[str, StoredEvent] | None:
    """The event at a position of a topic, in the log or the archive, and its shard; the first where several have one."""

    def read_event(conn: Connection) -> StoredEvent | None:
        span = find_stored_range(conn, topic, namespace=view.namespace)
        return read_stored_events_at(conn, span, [position]).get(position)

    return next(((shard, event) for shard, event in view.each_shard(read_event) if event is not None), None)


def position_at(conn: Connection, span: StoredRange, at: datetime) -> int:
    """The first position that was appended at a time or later. Times rise with positions, and positions have no gaps: a binary
    search reads some twenty events."""
    low, high = span.log_first, span.until
    if low < high and span.first < low and _time_of(conn, span, low) >= at:
        return find_position_at(conn, span, at)
    while low < high:
        middle = (low + high) // 2
        if _time_of(conn, span, middle) < at:
            low = middle + 1
        else:
            high = middle
    return low


def _time_of(conn: Connection, span: StoredRange, position: int) -> datetime:
    row = conn.execute(query("log/appended_at"), {"topic_id": span.topic_id, "position": position}).fetchone()
    # Retention dropped it meanwhile: it is older than all that is left.
    return OLDEST if row is None else row[0]


@dataclass(frozen=True)
class AnswerText:
    """true, false or unknown, and how it looks."""

    text: str
    kind: str


def answer_text(answer: bool | None) -> AnswerText:
    if answer is None:
        return AnswerText("unknown", "warn")
    return AnswerText("true", "good") if answer else AnswerText("false", "bad")


def clause_rows(clause: ClauseValue, depth: int = 0) -> list[Row]:
    """The clauses of a condition from the outside in, with the depth of each."""
    is_answer = is_clause(clause.text)
    kind = {"true": "good", "false": "bad", "unknown": "warn"}.get(clause.value, "") if is_answer else ""
    row = {"text": clause.text, "value": clause.value, "depth": min(depth, 8), "kind": kind, "is_answer": is_answer}
    return [row, *(below for part in clause.parts for below in clause_rows(part, depth + 1))]


def failing_clause(clause: ClauseValue) -> ClauseValue | None:
    """The innermost clause because of which a condition is not true; None if it is true.

    Where all clauses of an `and` or `or` fail, it is the whole."""
    if clause.value == "true":
        return None
    clauses = [part for part in clause.parts if is_clause(part.text)]
    failing = [part for part in clauses if part.value != "true"]
    if not failing or (len(failing) > 1 and len(failing) == len(clauses)):
        return clause
    return failing_clause(failing[0])


@lru_cache(maxsize=2_000)
def is_clause(text: str) -> bool:
    """True for what is true, false or unknown; False for an operand."""
    try:
        parse(text)
    except ConditionError:
        return False
    return True


def exact_json(value: Any, *, indent: bool = True) -> str:
    """JSON with all digits, as the database prints it, and nothing that a browser could reorder or hide."""
    text = jsonb_text(value)
    return safe_json(msgspec.json.format(text, indent=2) if indent else text)
