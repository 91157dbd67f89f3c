"""Rendering: pages, parts of pages, tables and errors as responses; and a page as a stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response, StreamingResponse

from headrace.core import HeadraceError, redact
from headrace.web.console import texts
from headrace.web.console.assets import VENDOR
from headrace.web.console.masks import MASK
from headrace.web.console.tables import Row, Table
from headrace.web.console.view import Page, View

STATIC = Path(__file__).parent / "static"
_FILTERS: dict[str, Callable[..., object]] = {
    "cell": texts.cell_text,
    "lines": texts.lines_text,
    "payload_text": texts.payload_text,
    "number": texts.format_number,
    "seconds": texts.format_seconds,
    "bytes": texts.format_bytes,
    "since": texts.relative_time,
    "absolute": texts.absolute_time,
    "identified": texts.identified,
}
STREAM_MAX_S = 600
"""A stream ends after this; the browser opens the next one."""
SILENCE_MAX_S = 20.0
"""A comment is sent when nothing changes for this long, so that proxies keep the connection."""


@cache
def vendor_files() -> frozenset[str]:
    """The names of the fetched files; looked up once."""
    return frozenset(path.name for path in VENDOR.glob("*.*")) if VENDOR.is_dir() else frozenset()


def create_templates() -> Environment:
    """The templates: everything is escaped, and a name that a page does not set is an error."""
    templates = Environment(
        loader=PackageLoader("headrace.web.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(_FILTERS)
    templates.globals.update(payload_chars_max=texts.PAYLOAD_CHARS_MAX)
    # As a global and not by an import in every page: a part of a page is rendered without the top level of its template.
    templates.globals["ui"] = templates.get_template("macros.html").module
    return templates


def render(view: View, page: Page) -> Response:
    """A page, or the export of one of its tables."""
    page = _select(view, page)
    if page.tables and (kind := view.query.get("format")) in ("json", "csv"):
        return _export(view, page, str(kind))
    template = view.site.templates.get_template(page.template)
    return HTMLResponse(template.render(_context(view, page)), status_code=page.status)


def render_live(view: View, page: Page) -> str:
    """Only the part of the page that is renewed while it is open."""
    template = view.site.templates.get_template(page.template)
    block = template.blocks.get("live")
    return "".join(block(template.new_context(_context(view, _select(view, page))))) if block else ""


def render_error(view: View, error: HeadraceError, status: int) -> Response:
    message = redact("\n".join([str(error).strip(), *getattr(error, "__notes__", [])]))
    values = {"message": message, "explanation": (type(error).__doc__ or "").strip(), "status": status}
    page = Page("error.html", type(error).__name__, values=values, status=status, is_live=False)
    template = view.site.templates.get_template(page.template)
    return HTMLResponse(template.render(_context(view, page, with_namespaces=status != 503)), status_code=status)


def _context(view: View, page: Page, *, with_namespaces: bool = True) -> dict[str, Any]:
    namespaces = _namespaces(view) if with_namespaces and view.is_signed_in else []
    return {
        "view": view,
        "page": page,
        "title": page.title,
        "tables": {table.name: table for table in page.tables},
        "navigation": view.site.navigation,
        "vendor": vendor_files(),
        "notice": unquote(view.request.cookies.get("headrace_notice", "")),
        "namespaces": list(dict.fromkeys(namespaces)),
        **page.values,
    }


def _namespaces(view: View) -> list[str]:
    """The choices of the selector; none where they cannot be read: the page of an error must not fail."""
    try:
        return [view.namespace, *view.namespaces]
    except HeadraceError:
        return []


def _select(view: View, page: Page) -> Page:
    """The page with its tables masked, filtered by `?q=` and sorted by `?sort=`."""
    search, sort = view.query.get("q", ""), view.query.get("sort", "")
    several = len(view.shards) > 1
    chosen = view.query.get("table") or (page.tables[0].name if page.tables else "")
    tables = []
    for table in page.tables:
        table = replace(table, rows=[_mask(view, row) for row in table.rows]).with_shards(several)
        if table.name == chosen:
            table = table.select(search=search, sort=sort.removeprefix("-"), descending=sort.startswith("-"))
        tables.append(table)
    return replace(page, tables=tables)


def _mask(view: View, row: Row) -> Row:
    masked = {"payload": view.mask(row["payload"])} if "payload" in row else {}
    if row.get("captured") is not None and view.hidden_fields:
        masked["captured"] = MASK
    return {**row, **masked}


def _export(view: View, page: Page, kind: str) -> Response:
    names = [table.name for table in page.tables]
    name = view.query.get("table") or names[0]
    table: Table = page.tables[names.index(name)] if name in names else page.tables[0]
    headers = {"content-disposition": f'attachment; filename="headrace-{table.name}.{kind}"'}
    if kind == "json":
        return Response(table.to_json(), media_type="application/json", headers=headers)
    return Response(table.to_csv(), media_type="text/csv; charset=utf-8", headers=headers)


def stream_page(view: View, function: Callable[[View], Page | Response]) -> Response:
    """The page's own address with `?live=stream`: the block `live` comes again whenever it has changed.

    The data are read once for all consoles that look at the same page with the same role. Where streams do not get through, the browser
    polls `?live=part`."""
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
