"""The end of a log, read once for all who wait there, and the values that readers exchange.

Promises: the events after a position come from memory only if all of them are there; an event that was appended while the tail was
being read is read next. What the tail cannot answer, the reader asks the database itself."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, TypeAlias, cast
from uuid import UUID

import msgspec

from headrace.core import JSON, LoggedEvent, RawJSON, decode, to_cloudevent
from headrace.db import Subscription, cancel_tasks
from headrace.web.http.authentication import fits

LOOK_AGAIN_S = 20.0
"""Without a notification the tail is read again after this time: the listener may have lost its connection."""
UNUSED_S = 5.0
"""A tail that nobody has read for this long ends."""
KEPT_CHARS = 2 * 1024 * 1024
"""Payloads that are kept for readers who are still sending what came before. Whoever is slower asks the database."""
PAGE_CHARS = 1024 * 1024
"""Payloads in one page from memory; the first event comes whatever its size."""
Start: TypeAlias = int | Literal["earliest", "latest"]


@dataclass(frozen=True)
class EventQuery:
    """Which events a reader wants. Types are names, or beginnings that end in *; `granted_types` are those of its token."""

    namespace: str
    topic: str
    after: Start
    limit: int
    types: tuple[str, ...] | None = None
    granted_types: tuple[str, ...] | None = None
    key: str | None = None

    def accepts(self, event: ReadEvent) -> bool:
        """The same as the conditions of the query ingest/read_events."""
        return (
            (self.key is None or event.key == self.key)
            and (self.types is None or any(fits(event.type, pattern) for pattern in self.types))
            and (self.granted_types is None or any(fits(event.type, pattern) for pattern in self.granted_types))
        )


def like_pattern(pattern: str) -> str:
    """A name, or a beginning that ends in *, as a pattern of SQL's LIKE."""
    prefix = pattern[:-1] if pattern.endswith("*") else pattern
    escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped + "%" if pattern.endswith("*") else escaped


@dataclass(frozen=True)
class ReadEvent:
    """An event, with payload and headers as JSON text."""

    position: int
    partition: int
    id: UUID
    type: str
    key: str | None
    payload: str
    headers: str
    emitted_at: datetime
    appended_at: datetime
    producer: str | None

    @cached_property
    def json(self) -> bytes:
        """The event as an object of JSON, made once for all readers. Digits of the payload are those of the log."""
        return msgspec.json.encode(
            {
                "position": self.position,
                "partition": self.partition,
                "id": self.id,
                "type": self.type,
                "key": self.key,
                "payload": msgspec.Raw(self.payload.encode()),
                "headers": msgspec.Raw(self.headers.encode()),
                "emitted_at": self.emitted_at,
                "appended_at": self.appended_at,
                "producer": self.producer,
            }
        )

    def to_cloudevent(self, topic: str) -> str:
        raw: RawJSON = msgspec.Raw(self.payload.encode())
        headers = cast(dict[str, JSON], decode(self.headers))
        event = LoggedEvent(
            self.position, self.partition, self.id, topic, self.type, self.key, cast(JSON, raw), headers, self.emitted_at,
            self.appended_at, self.producer,
        )  # fmt: skip
        return to_cloudevent(event)


@dataclass(frozen=True)
class EventPage:
    """Events, and the position that the next request begins after."""

    events: Sequence[ReadEvent]
    next: int
    is_at_end: bool
    """False: there are more positions to read now."""


class LogTail:
    """The newest events of one topic. It begins where its first reader waits, and grows with each notification."""

    def __init__(
        self, subscription: Subscription, read_after: Callable[[int], Awaitable[EventPage]], on_end: Callable[[], None]
    ) -> None:
        """`subscription` is that of the topic; `on_end` is called when nobody reads it any more."""
        self._subscription = subscription
        self._read_after = read_after
        self._on_end = on_end
        self._readers = 0
        self._left_at = 0.0
        self._start = self.end = -1
        """All events behind the start up to `end` are kept; -1: it has not begun."""
        self._events: list[ReadEvent] = []
        self._has_missed = False
        """A notification came before the tail began; the first read may have been before it."""
        self.change = asyncio.Event()
        """Set when the tail has grown, or has to begin anew. Take it before you look."""
        self._following = asyncio.create_task(self._follow(), name="tail of a log")

    @contextmanager
    def reading(self) -> Iterator[LogTail]:
        """The tail is kept while the block runs."""
        self._readers += 1
        try:
            yield self
        finally:
            self._readers -= 1
            self._left_at = time.monotonic()

    def begin(self, position: int) -> None:
        """A read that began after the subscription has found the end of the log here."""
        if self.end < 0:
            self._start = self.end = position
            if self._has_missed:
                self._has_missed = False
                self._subscription.notify()

    def page(self, wanted: EventQuery) -> EventPage | None:
        """What a reader wants, from memory; None if that does not have all of it."""
        if isinstance(wanted.after, str) or self.end < 0 or not self._start <= wanted.after <= self.end:
            return None
        events: list[ReadEvent] = []
        chars = 0
        for event in self._events[bisect_right(self._events, wanted.after, key=_position) :]:
            if wanted.accepts(event):
                if events and (len(events) == wanted.limit or chars + len(event.payload) > PAGE_CHARS):
                    return EventPage(events, events[-1].position, is_at_end=False)
                events.append(event)
                chars += len(event.payload)
        return EventPage(events, self.end, is_at_end=True)

    async def close(self) -> None:
        await cancel_tasks(self._following)

    async def _follow(self) -> None:
        try:
            while self._readers or time.monotonic() - self._left_at < UNUSED_S:
                is_notified = await self._subscription.wait(LOOK_AGAIN_S if self._readers else UNUSED_S)
                if self.end >= 0:
                    await self._grow()
                else:
                    self._has_missed |= is_notified
        finally:
            self._on_end()

    async def _grow(self) -> None:
        try:
            while True:
                page = await self._read_after(self.end)
                self._append(page)
                if page.is_at_end:
                    break
        except Exception:  # noqa: BLE001 - each reader asks the database itself, and gets the error
            self._start = self.end = -1
            self._events = []
            self._announce()

    def _append(self, page: EventPage) -> None:
        self.end = page.next
        if not page.events:
            return
        self._events += page.events
        chars = 0
        for number in range(len(self._events) - 1, -1, -1):
            chars += len(self._events[number].payload)
            if chars > KEPT_CHARS and number < len(self._events) - 1:
                self._start = self._events[number].position
                del self._events[: number + 1]
                break
        self._announce()

    def _announce(self) -> None:
        change, self.change = self.change, asyncio.Event()
        change.set()


def _position(event: ReadEvent) -> int:
    return event.position
