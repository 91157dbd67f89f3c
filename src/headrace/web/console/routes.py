"""Routes: pages that read, and forms that change; and how a page, its tables, and errors are rendered, also as a stream of server-sent
events.

Every changing route is made by `change`, which checks the CSRF token; `create_app` rejects any other."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.core import (
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    HeadraceError,
    Invalid,
    NotFound,
    redact,
)
from headrace.web.console import texts
from headrace.web.console.assets import VENDOR
from headrace.web.console.site import Site
from headrace.web.console.texts import MASK
from headrace.web.console.view import Done, Page, View

FORM_BYTES_MAX = 4 * 1024 * 1024
"""A payload of 1 MB, percent-encoded, fits."""
SIGN_IN_BYTES_MAX = 16 * 1024
"""The limit of a form sent before sign-in: such clients must not fill the memory."""
FORM_S = 30.0
"""How long a browser may take to send a form."""
NOTICE = "headrace_notice"

Reader: TypeAlias = Callable[[View], Page | Response]
Changer: TypeAlias = Callable[[View], Done | Page | Response]


class ReadEndpoint:
    """A page: as HTML, as JSON or CSV (`?format=`), or live (`?live=`)."""

    def __init__(self, function: Reader) -> None:
        self.function = function

    async def answer(self, request: Request) -> Response:
        view = make_view(request)
        if request.query_params.get("live") == "stream":
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return StreamingResponse(_stream(view, self.function), media_type="text/event-stream", headers=headers)
        return await run_in_threadpool(self._answer, view)

    def _answer(self, view: View) -> Response:
        try:
            result = self.function(view)
        except HeadraceError as error:
            return render_error(view, error, status_of(error))
        if isinstance(result, Response):
            return result
        if view.query.get("live") == "part":
            return HTMLResponse(render_live(view, result))
        response = render(view, result)
        if NOTICE in view.request.cookies:
            response.delete_cookie(NOTICE, path=cookie_path(view.request))
        return response


class ChangeEndpoint:
    """A form that was submitted. After success the browser is sent to a page; after an error the form's page is shown again."""

    def __init__(self, function: Changer, form: Reader | None) -> None:
        self.function = function
        self.form = form

    async def answer(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(FORM_S):
                form = await read_form(request)
        except TimeoutError:
            text = f"The form did not arrive within {FORM_S:g} s; nothing was changed.\n"
            return PlainTextResponse(text, status_code=408, headers={"connection": "close"})
        except ClientDisconnect:
            # Nobody reads the answer.
            return PlainTextResponse("", status_code=400)
        view = make_view(request, form)
        if not is_own_form(request, form, view.csrf):
            return render_error(view, Forbidden("the form did not come from this console; load the page again and repeat"), 403)
        return await run_in_threadpool(self._answer, view)

    def _answer(self, view: View) -> Response:
        try:
            result = self.function(view)
        except HeadraceError as error:
            return self._show_again(view, error)
        if isinstance(result, Response):
            return result
        if isinstance(result, Page):
            return render(view, replace(result, is_live=False))
        response = RedirectResponse(result.url, status_code=303)
        response.set_cookie(
            NOTICE, quote(result.message), max_age=60, httponly=True, samesite="strict", path=cookie_path(view.request)
        )
        return response

    def _show_again(self, view: View, error: HeadraceError) -> Response:
        status = status_of(error)
        if self.form is None or status in (403, 404, 503):
            return render_error(view, error, status)
        view.error = error_text(error)
        try:
            page = self.form(view)
        except HeadraceError:
            return render_error(view, error, status)
        # It is not live: the address of a form cannot be read.
        return page if isinstance(page, Response) else render(view, replace(page, status=status, is_live=False))


def read(path: str, function: Reader) -> Route:
    return Route(path, ReadEndpoint(function).answer, methods=["GET"], name=path)


def change(path: str, function: Changer, *, form: Reader | None = None) -> Route:
    """The route of a form. `form` is the page that shows the form again after an error."""
    return Route(path, ChangeEndpoint(function, form).answer, methods=["POST"], name=f"POST {path}")


def make_view(request: Request, form: Mapping[str, str] | None = None) -> View:
    site: Site = request.app.state.site
    return View(site, request, request.scope["headrace.user"], request.scope["headrace.csrf"], form)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; none for a body that is too large or no form."""
    body = bytearray()
    bytes_max = SIGN_IN_BYTES_MAX if request.scope["headrace.user"] is None else FORM_BYTES_MAX
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            return {}
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    except ValueError:
        return {}


def is_own_form(request: Request, form: Mapping[str, str], csrf: str) -> bool:
    """True if a page of this console sent the form: the token of the cookie is in it, and the browser names no other origin."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        return False
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    return bool(csrf) and hmac.compare_digest(form.get("csrf", "").encode(), csrf.encode())


def status_of(error: HeadraceError) -> int:
    for kind, status in ((NotFound, 404), (Forbidden, 403), (Conflict, 409), (Invalid, 422), (DatabaseUnavailable, 503)):
        if isinstance(error, kind):
            return status
    return 500


def error_text(error: HeadraceError) -> str:
    return "\n".join([str(error).strip(), *getattr(error, "__notes__", [])])


def cookie_path(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/") + "/"


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
    # A global, because every page uses it.
    templates.globals["ui"] = templates.get_template("macros.html").module
    return templates


def render(view: View, page: Page) -> Response:
    """A page, or the export of one of its tables."""
    page = _select(view, page)
    kind = view.query.get("format")
    if not page.tables or kind not in ("json", "csv"):
        return _render_page(view, page)
    table = next((table for table in page.tables if table.name == view.query.get("table")), page.tables[0])
    headers = {"content-disposition": f'attachment; filename="headrace-{table.name}.{kind}"'}
    if kind == "json":
        return Response(table.to_json(), media_type="application/json", headers=headers)
    return Response(table.to_csv(), media_type="text/csv; charset=utf-8", headers=headers)


def _render_page(view: View, page: Page, *, with_namespaces: bool = True) -> Response:
    template = view.site.templates.get_template(page.template)
    return HTMLResponse(template.render(_context(view, page, with_namespaces=with_namespaces)), status_code=page.status)


def render_live(view: View, page: Page) -> str:
    """Only the part of the page that is renewed while it is open."""
    template = view.site.templates.get_template(page.template)
    return template.render(_context(view, _select(view, page)), is_part=True)


def render_error(view: View, error: HeadraceError, status: int) -> Response:
    values = {"message": redact(error_text(error)), "explanation": (type(error).__doc__ or "").strip(), "status": status}
    page = Page("error.html", type(error).__name__, values=values, status=status, is_live=False)
    return _render_page(view, page, with_namespaces=status != 503)


def _context(view: View, page: Page, *, with_namespaces: bool = True) -> dict[str, Any]:
    namespaces: list[str] = []
    # None where they cannot be read: the page of an error must not fail.
    with suppress(HeadraceError):
        namespaces = [view.namespace, *view.namespaces] if with_namespaces and view.is_signed_in else []
    return {
        "view": view,
        "page": page,
        "title": page.title,
        "tables": {table.name: table for table in page.tables},
        "navigation": view.site.navigation,
        "vendor": vendor_files(),
        "notice": unquote(view.request.cookies.get(NOTICE, "")),
        "namespaces": list(dict.fromkeys(namespaces)),
        **page.values,
    }


def _select(view: View, page: Page) -> Page:
    """The page with its tables masked, filtered by `?q=` and sorted by `?sort=`."""
    search, sort = view.query.get("q", ""), view.query.get("sort", "")
    several = len(view.shards) > 1
    chosen = view.query.get("table") or (page.tables[0].name if page.tables else "")
    tables = []
    for table in page.tables:
        rows = [{**row, "payload": view.mask(row["payload"])} if "payload" in row else row for row in table.rows]
        if view.hidden_fields:
            rows = [{**row, "captured": MASK} if row.get("captured") is not None else row for row in rows]
        table = replace(table, rows=rows).with_shards(several)
        if table.name == chosen:
            table = table.select(search=search, sort=sort.removeprefix("-"), descending=sort.startswith("-"))
        tables.append(table)
    return replace(page, tables=tables)


async def _stream(view: View, function: Reader) -> AsyncIterator[str]:
    """The page's own address with `?live=stream`: the block `live` comes again whenever it has changed.

    The data are read once for all consoles that look at the same page with the same role. Where streams do not get through, the browser
    polls `?live=part`."""
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


def _render(view: View, function: Reader, every_s: float) -> tuple[str, str]:
    key = ("page", view.user.role, view.page_path, str(view.query))
    try:
        page = view.site.cached(key, every_s * 0.9, lambda: function(view))
        return ("live", render_live(view, page)) if isinstance(page, Page) else ("failure", "this page is not live")
    except HeadraceError as error:
        return "failure", str(error)
