"""Event streams: server-sent events whose ids are positions. A client that comes back with Last-Event-ID goes on there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from starlette.types import Message, Receive, Scope, Send

from headrace.db import cancel_tasks
from headrace.web.http.problems import Problem, problem_of
from headrace.web.http.reading import EventPage, EventQuery, LogReader, problem_event

HEARTBEAT_S = 15.0
"""A comment is sent after this time without an event: proxies close connections that say nothing."""
SEND_S = 30.0
"""A client that takes nothing for this long is cut off."""
PIECE_BYTES = 64 * 1024
HEADERS = {
    b"content-type": b"text/event-stream; charset=utf-8",
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    # For nginx: do not collect the stream.
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
        place: AbstractContextManager[object],
    ) -> None:
        """`place` is released when the stream has ended."""
        self._reader = reader
        self._wanted = wanted
        self._first = first
        self._check_token = check_token
        self._place = place

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            sending = asyncio.create_task(self._send_events(send), name="event stream")
            leaving = asyncio.create_task(_wait_for_end(receive), name="end of an event stream")
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel_tasks(sending, leaving)

    async def _send_events(self, send: Send) -> None:
        try:
            await _send(send, {"type": "http.response.start", "status": 200, "headers": list(HEADERS.items())})
            # At once, so that the client knows that the stream is open.
            await _send_body(send, b": open\n\n")
            page = self._first
            while True:
                for text in _pieces(page):
                    await _send_body(send, text)
                page = await self._next_page(page)
        except TimeoutError:
            return  # The client takes nothing.
        except Problem as error:
            await _send_body(send, problem_event(error))
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
