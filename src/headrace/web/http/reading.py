"""Reading: the events of a topic after a position, for long polls and event streams.

Promises: a reader never skips a position, whatever it filters; it waits for the listener's notification and not by asking the database
again and again; what is new in a topic is read once for all who wait at its end, and readers further back that want
the same at the same time share one query.

The end of a log is kept in memory (LogTail). The events after a position come from there only if all of them are there; an event that was
appended while the tail was being read is read next. What the tail cannot answer, the reader asks the database itself."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal, TypeAlias, cast

import msgspec
from starlette.types import Message, Receive, Scope, Send

from headrace.core import (
    JSON,
    PositionOutOfRange,
    RawJSON,
    StoredEvent,
    decode,
    encode,
    map_database_errors,
    to_cloudevent,
)
from headrace.db import Subscription, cancel_tasks, query
from headrace.web.http.authentication import fits
from headrace.web.http.databases import LOG_CHANNEL, Database, LookupCache
from headrace.web.http.request import Problem, problem_of

LOOK_AGAIN_S = 20.0
"""Without a notification the tail is read again after this time: the listener may have lost its connection."""
UNUSED_S = 5.0
"""A tail that nobody has read for this long ends."""
KEPT_CHARS = 2 * 1024 * 1024
"""Payloads that are kept for readers who are still sending what came before. Whoever is slower asks the database."""
PAGE_CHARS = 1024 * 1024
"""Payloads in one page from memory; the first event comes whatever its size."""
SCAN = 20_000
"""Positions that one query reads at most: a filter that rarely fits must not read the whole log at once."""
BYTES = 512 * 1024
"""Bytes of the payloads in one query, as they are stored, which may be compressed; the first event comes whatever its size."""
TAIL_LIMIT = 1000
"""Events that one query reads for all who wait."""


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
class ReadEvent(StoredEvent):
    """An event, with payload and headers as JSON text."""

    @cached_property
    def json(self) -> bytes:
        """The event as an object of JSON, made once for all readers. Digits of the payload are those of the log."""
        raw = {"payload": msgspec.Raw(self.payload.encode()), "headers": msgspec.Raw(self.headers.encode())}
        members = (self.values() | raw).items()
        return msgspec.json.encode({"id" if name == "event_id" else name: value for name, value in members})

    def to_cloudevent(self, topic: str) -> str:
        raw: RawJSON = msgspec.Raw(self.payload.encode())
        headers = cast(dict[str, JSON], decode(self.headers))
        return to_cloudevent(self.to_logged(topic, cast(JSON, raw), headers))


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
        for event in self._events[bisect_right(self._events, wanted.after, key=attrgetter("position")) :]:
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


class LogReader:
    """Reads the logs of one database for all readers of the process."""

    def __init__(self, database: Database, cache_s: float) -> None:
        self._database = database
        self._topic_ids: LookupCache[int] = LookupCache(cache_s)
        self._reads: dict[object, asyncio.Task[EventPage]] = {}
        self._tails: dict[int, LogTail] = {}

    async def read(self, wanted: EventQuery, *, wait_s: float) -> EventPage:
        """Events after a position; waits for the first, at most `wait_s`. Raises UnknownTopic, PositionOutOfRange or Problem."""
        topic_id = await self._topic_id(wanted)
        deadline = time.monotonic() + wait_s
        # Before the first look: an event that comes after it must wake the reader.
        with self._tail(topic_id, wanted.namespace).reading() as tail:
            while True:
                change = tail.change
                page = tail.page(wanted)
                if page is None:
                    page = await self._shared_read(wanted, topic_id)
                    if page.is_at_end:
                        tail.begin(page.next)
                left_s = deadline - time.monotonic()
                if page.events or left_s <= 0:
                    return page
                wanted = replace(wanted, after=page.next)
                # Another reader's query, which began later, may have begun the tail behind what this one has seen.
                if page.is_at_end and tail.end <= page.next:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(change.wait(), left_s)

    async def close(self) -> None:
        for tail in list(self._tails.values()):
            await tail.close()

    def _tail(self, topic_id: int, namespace: str) -> LogTail:
        tail = self._tails.get(topic_id)
        if tail is None:
            subscription = self._database.listener.subscribe(LOG_CHANNEL)
            subscription.filter = str(topic_id)

            async def read_after(position: int) -> EventPage:
                everything = EventQuery(namespace=namespace, topic="", after=position, limit=TAIL_LIMIT)
                return await self._read(everything, topic_id)

            def end() -> None:
                del self._tails[topic_id]
                self._database.listener.unsubscribe(subscription)

            tail = self._tails[topic_id] = LogTail(subscription, read_after, end)
        return tail

    async def _shared_read(self, wanted: EventQuery, topic_id: int) -> EventPage:
        """A read that began after the newest notification is good for everybody who wants the same."""
        key = (self._database.notifications.count, topic_id, wanted)
        task = self._reads.get(key)
        if task is None:
            task = self._reads[key] = asyncio.create_task(self._read(wanted, topic_id))
            task.add_done_callback(lambda _task: self._reads.pop(key, None))
        # Shielded: the reader that began it may go away, the others want the answer.
        return await asyncio.shield(task)

    async def _read(self, wanted: EventQuery, topic_id: int) -> EventPage:
        after = 0 if wanted.after == "earliest" else 2**62 if wanted.after == "latest" else wanted.after
        parameters = {
            "topic_id": topic_id,
            "after": after,
            "scan": SCAN,
            "bytes": BYTES,
            "types": wanted.types and list(map(like_pattern, wanted.types)),
            "granted_types": wanted.granted_types and list(map(like_pattern, wanted.granted_types)),
            "key": wanted.key,
            "limit": wanted.limit,
        }
        async with self._database.reader_connection(wanted.namespace) as conn:
            with map_database_errors():
                rows = await (await conn.execute(query("web/http/read_events"), parameters)).fetchall()
        oldest, newest = rows[0][:2]
        if newest is None:
            return EventPage((), 0 if wanted.after == "latest" else after, is_at_end=True)
        if wanted.after == "latest":
            return EventPage((), newest, is_at_end=True)
        _check_range(after, oldest, newest)
        events = [ReadEvent(*row[3:]) for row in rows if row[3] is not None]
        is_cut = bool(events) and (len(events) == wanted.limit or len(events) < rows[0][2])
        scanned_to = events[-1].position if is_cut else min(newest, max(after, oldest - 1) + SCAN)
        return EventPage(events, scanned_to, is_at_end=scanned_to == newest)

    async def _topic_id(self, wanted: EventQuery) -> int:
        async def look_up() -> int:
            async with self._database.reader_connection(wanted.namespace) as conn:
                with map_database_errors():
                    parameters = (wanted.topic, wanted.namespace)
                    row = await (await conn.execute("select headrace.topic_id(%s, %s)", parameters)).fetchone()
            assert row is not None
            return int(row[0])

        topic_id = await self._topic_ids.get((wanted.namespace, wanted.topic), look_up)
        assert topic_id is not None
        return topic_id


def _check_range(after: int, oldest: int, newest: int) -> None:
    if after > newest:
        raise PositionOutOfRange(
            f"the log ends at position {newest}, before {after}; continue with after={newest}. If you have read up to {after}, the log "
            "went back: see docs/operations.md, Failover"
        )
    if 0 < after < oldest - 1:
        raise Problem(
            410,
            f"the positions {after + 1} to {oldest - 1} are not in the log any more: retention dropped them; continue with "
            f"after={oldest - 1}, or read the archive",
            error="PositionOutOfRange",
        )


HEARTBEAT_S = 15.0
"""A comment is sent after this time without an event: proxies close connections that say nothing."""
SEND_S = 30.0
"""A client that takes nothing for this long is cut off."""
PIECE_BYTES = 64 * 1024
HEADERS = {
    b"content-type": b"text/event-stream; charset=utf-8",
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    # This tells nginx not to buffer the stream.
    b"x-accel-buffering": b"no",
}


class EventStream:
    """An ASGI response that sends events until the client goes away, or its token is no longer valid."""

    def __init__(
        self,
        reader: LogReader,
        wanted: EventQuery,
        first: EventPage,
        check_token: Callable[[], Awaitable[object]],
        slot: AbstractContextManager[object],
    ) -> None:
        """`slot` is released when the stream has ended."""
        self._reader = reader
        self._wanted = wanted
        self._first = first
        self._check_token = check_token
        self._slot = slot

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            sending = asyncio.create_task(self._send_events(send), name="event stream")
            leaving = asyncio.create_task(_wait_for_end(receive), name="end of an event stream")
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel_tasks(sending, leaving)

    async def _send_events(self, send: Send) -> None:
        try:
            await _send(send, {"type": "http.response.start", "status": 200, "headers": list(HEADERS.items())})
            # Send this at once, so that the client knows that the stream is open.
            await _send_body(send, b": open\n\n")
            page = self._first
            while True:
                for text in _pieces(page):
                    await _send_body(send, text)
                page = await self._next_page(page)
        except TimeoutError:
            return  # The client takes nothing.
        except Problem as error:
            # The status has been sent already.
            data = encode({"status": error.status, "error": error.error, "detail": error.detail})
            await _send_body(send, f"event: problem\ndata: {data}\n\n".encode())
        await _send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _next_page(self, page: EventPage) -> EventPage:
        try:
            # A revoked token ends the stream.
            await self._check_token()
            return await self._reader.read(replace(self._wanted, after=page.next), wait_s=HEARTBEAT_S)
        except Exception as error:
            raise problem_of(error) from error


def _pieces(page: EventPage) -> Iterator[bytes]:
    """The events of a page, small ones together; a heartbeat for an empty one."""
    piece = b"" if page.events else b"id: %d\n: alive\n\n" % page.next
    for event in page.events:
        piece += b"id: %d\ndata: %b\n\n" % (event.position, event.json)
        if len(piece) >= PIECE_BYTES:
            yield piece
            piece = b""
    if piece:
        yield piece


async def _send_body(send: Send, body: bytes) -> None:
    await _send(send, {"type": "http.response.body", "body": body, "more_body": True})


async def _send(send: Send, message: Message) -> None:
    async with asyncio.timeout(SEND_S):
        await send(message)


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
