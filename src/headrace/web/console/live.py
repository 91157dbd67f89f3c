"""Live: a page as a stream of server-sent events.

The page's own address with `?live=stream` sends the block `live` again whenever it has changed. The data are read once for all
consoles that look at the same page with the same role. Where streams do not get through, the browser polls `?live=part`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from time import monotonic

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from headrace.core import HeadraceError
from headrace.web.console.rendering import render_live
from headrace.web.console.view import Page, View

STREAM_MAX_S = 600
"""A stream ends after this; the browser opens the next one."""
SILENCE_MAX_S = 20.0
"""A comment is sent when nothing changes for this long, so that proxies keep the connection."""


def stream_page(view: View, function: Callable[[View], Page | Response]) -> Response:
    """The stream of a page."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_stream(view, function), media_type="text/event-stream", headers=headers)


async def _stream(view: View, function: Callable[[View], Page | Response]) -> AsyncIterator[str]:
    every_s = view.site.settings.live_every_s
    end, spoke_at, last = monotonic() + STREAM_MAX_S, monotonic(), ""
    yield "retry: 3000\n\n"
    # A session that has ended sees nothing that comes later.
    while monotonic() < end and await view.request.scope["headrace.is_signed_in"]():
        event, text = await run_in_threadpool(_render, view, function, every_s)
        if (event, text) != ("live", last):
            last, spoke_at = text, monotonic()
            yield f"event: {event}\n" + "".join(f"data: {line}\n" for line in text.split("\n")) + "\n"
        elif monotonic() - spoke_at > SILENCE_MAX_S:
            spoke_at = monotonic()
            yield ": still here\n\n"
        # The client's disconnection cancels this task here or at the next yield.
        await asyncio.sleep(every_s)


def _render(view: View, function: Callable[[View], Page | Response], every_s: float) -> tuple[str, str]:
    key = ("page", view.user.role, view.page_path, str(view.query))
    try:
        page = view.site.cached(key, every_s * 0.9, lambda: function(view))
        return ("live", render_live(view, page)) if isinstance(page, Page) else ("failure", "this page is not live")
    except HeadraceError as error:
        return "failure", str(error)
