"""Reading: the events of a topic after a position, for long polls and event streams.

Promises: a reader never skips a position, whatever it filters; it waits for the listener's notification and not by asking the database
again and again; what is new in a topic is read once for all who wait at its end (log_tail.py), and readers further back that want
the same at the same time share one query."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

from headrace.core import PositionOutOfRange, encode, map_database_errors
from headrace.db import query
from headrace.web.http.databases import LOG_CHANNEL, Database
from headrace.web.http.log_tail import EventPage, EventQuery, LogTail, ReadEvent, like_pattern
from headrace.web.http.lookup_cache import LookupCache
from headrace.web.http.problems import Problem

SCAN = 20_000
"""Positions that one query reads at most: a filter that rarely fits must not read the whole log at once."""
BYTES = 512 * 1024
"""Bytes of the payloads in one query, as they are stored, which may be compressed; the first event comes whatever its size."""
TAIL_LIMIT = 1000
"""Events that one query reads for all who wait."""


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


def page_json(page: EventPage) -> bytes:
    """An answer to GET."""
    return b'{"events":[' + b",".join(event.json for event in page.events) + f'],"next":{page.next}}}'.encode()


def page_cloudevents(page: EventPage, topic: str) -> bytes:
    """An answer to GET as a batch of CloudEvents."""
    return ("[" + ",".join(event.to_cloudevent(topic) for event in page.events) + "]").encode()


def problem_event(error: Problem) -> bytes:
    """An error inside an event stream, whose status has been sent already."""
    data = encode({"status": error.status, "error": error.error, "detail": error.detail})
    return f"event: problem\ndata: {data}\n\n".encode()
