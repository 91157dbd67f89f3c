"""Reading: the events of a topic after a position, for long polls and event streams.

Promises: a reader never skips a position, whatever it filters; it waits for the listener's notification and not by asking the database
again and again; readers that want the same at the same time share one query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias, cast
from uuid import UUID

import msgspec

from headrace.core import JSON, LoggedEvent, PositionOutOfRange, RawJSON, decode, encode, map_database_errors, to_cloudevent
from headrace.db import Subscription, query
from headrace.ingest.databases import LOG_CHANNEL, Database
from headrace.ingest.problems import Problem, unavailable

SCAN = 20_000
"""Positions that one query reads at most: a filter that rarely fits must not read the whole log at once."""
BYTES = 512 * 1024
"""Bytes of the payloads in one answer, as they are stored, which may be compressed; the first event comes whatever its size."""
LOOK_AGAIN_S = 20.0
"""Without a notification a waiting reader looks again after this time: the listener may have lost its connection."""
Start: TypeAlias = int | Literal["earliest", "latest"]


@dataclass(frozen=True)
class EventQuery:
    """Which events a reader wants. Types are patterns of LIKE; `granted_types` are those of its token."""

    namespace: str
    topic: str
    after: Start
    limit: int
    types: tuple[str, ...] | None = None
    granted_types: tuple[str, ...] | None = None
    key: str | None = None


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

    def to_json(self) -> bytes:
        """The event as an object of JSON. Digits of the payload are those of the log."""
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


class LogReader:
    """Reads the logs of one database for all readers of the process."""

    def __init__(self, database: Database, readers_max: int) -> None:
        self._database = database
        self._readers_max = readers_max
        self._readers = 0
        self._reads: dict[object, asyncio.Task[EventPage]] = {}

    async def read(self, wanted: EventQuery, *, wait_s: float) -> EventPage:
        """Events after a position; waits for the first, at most `wait_s`. Raises UnknownTopic, PositionOutOfRange or Problem."""
        topic_id = await self._topic_id(wanted)
        if self._readers >= self._readers_max:
            raise unavailable(f"{self._readers} readers wait already; try again, or raise readers_max")
        deadline = time.monotonic() + wait_s
        # Before the first look: an event that comes after it must wake the reader.
        subscription = self._database.listener.subscribe(LOG_CHANNEL)
        subscription.filter = str(topic_id)
        self._readers += 1
        try:
            return await self._read_until(wanted, topic_id, subscription, deadline)
        finally:
            self._readers -= 1
            self._database.listener.unsubscribe(subscription)

    async def _read_until(self, wanted: EventQuery, topic_id: int, subscription: Subscription, deadline: float) -> EventPage:
        while True:
            page = await self._shared_read(wanted, topic_id)
            left_s = deadline - time.monotonic()
            if page.events or left_s <= 0:
                return page
            wanted = replace(wanted, after=page.next)
            if page.is_at_end:
                await subscription.wait(min(left_s, LOOK_AGAIN_S))

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
            "types": wanted.types and list(wanted.types),
            "granted_types": wanted.granted_types and list(wanted.granted_types),
            "key": wanted.key,
            "limit": wanted.limit,
        }
        async with self._database.connection() as conn:
            with map_database_errors():
                rows = await (await conn.execute(query("ingest/read_events"), parameters)).fetchall()
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
        async with self._database.connection() as conn:
            with map_database_errors():
                row = await (await conn.execute("select headrace.topic_id(%s, %s)", (wanted.topic, wanted.namespace))).fetchone()
        assert row is not None
        return int(row[0])


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


def page_json(page: EventPage) -> bytes:
    """An answer to GET."""
    return b'{"events":[' + b",".join(event.to_json() for event in page.events) + f'],"next":{page.next}}}'.encode()


def page_cloudevents(page: EventPage, topic: str) -> bytes:
    """An answer to GET as a batch of CloudEvents."""
    return ("[" + ",".join(event.to_cloudevent(topic) for event in page.events) + "]").encode()


def problem_event(error: Problem) -> bytes:
    """An error inside an event stream, whose status has been sent already."""
    data = encode({"status": error.status, "error": error.error, "detail": error.detail})
    return f"event: problem\ndata: {data}\n\n".encode()
