"""Routes: pages that read, and forms that change.

Every changing route is made by `change`, which checks the CSRF token; `create_app` rejects any other."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from headrace.core import (
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    HeadraceError,
    Invalid,
    NotFound,
)
from headrace.web.console.rendering import render, render_error, render_live, stream_page
from headrace.web.console.site import Site
from headrace.web.console.view import Done, Page, View

FORM_BYTES_MAX = 4 * 1024 * 1024
"""A payload of 1 MB, percent-encoded, fits."""
SIGN_IN_BYTES_MAX = 16 * 1024
"""Of the form of somebody who is not signed in: strangers must not fill the memory."""
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
            return stream_page(view, self.function)
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
        # Not live: the address of a form cannot be read.
        return page if isinstance(page, Response) else render(view, replace(page, status=status, is_live=False))


def read(path: str, function: Reader) -> Route:
    """The route of a page."""
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
    """The HTTP status of an error."""
    for kind, status in ((NotFound, 404), (Forbidden, 403), (Conflict, 409), (Invalid, 422), (DatabaseUnavailable, 503)):
        if isinstance(error, kind):
            return status
    return 500


def error_text(error: HeadraceError) -> str:
    return "\n".join([str(error).strip(), *getattr(error, "__notes__", [])])


def cookie_path(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/") + "/"
