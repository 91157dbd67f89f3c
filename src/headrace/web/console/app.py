"""The ASGI application: its pages and static files; signing in with a token and out; the palette (Ctrl-K)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from urllib.parse import quote
from uuid import UUID

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from headrace.core import NotFound
from headrace.db import Target
from headrace.web.console.assets import VENDOR
from headrace.web.console.guard import SAFE_METHODS, Guard
from headrace.web.console.login import COOKIE, IDLE_S, ConsoleSettings, TokenLogin
from headrace.web.console.pages import (
    actions,
    consumers,
    correlators,
    dead_letters,
    event,
    events,
    http_in,
    now,
    relays,
    rules,
    schedules,
    topics,
)
from headrace.web.console.routes import (
    STATIC,
    ChangeEndpoint,
    change,
    cookie_path,
    create_templates,
    make_view,
    read,
    render_error,
)
from headrace.web.console.site import Databases, Link, Site
from headrace.web.console.texts import cell_text
from headrace.web.console.view import Done, Page, View
from headrace.web.http import create_app as create_ingest

PAGES = (
    now,
    events,
    event,
    topics,
    consumers,
    rules,
    correlators,
    schedules,
    relays,
    http_in,
    actions,
    dead_letters,
)
"""The modules of the pages; each lists its ROUTES. The first route that fits is taken."""

NAVIGATION: tuple[tuple[str, tuple[Link, ...]], ...] = (
    ("", (Link("Now", "/", "h"),)),
    ("Events", (Link("Events", "/events", "e"), Link("Topics", "/topics", "t"), Link("Consumers", "/consumers", "c"))),
    (
        "Reactions",
        (
            Link("Rules", "/rules", "r"),
            Link("Correlators", "/correlators", "p"),
            Link("Schedules", "/schedules", "s"),
        ),
    ),
    (
        "Integrations",
        (Link("Relays", "/relays", "l"), Link("Hooks", "/hooks", "w"), Link("Access tokens", "/access-tokens", "k")),
    ),
    ("Work", (Link("Actions", "/actions", "a"), Link("Dead letters", "/dead-letters", "d"), Link("Nodes", "/nodes", "n"))),
)
"""The sidebar: groups of entries, each a heading and links; the key opens a page after `g`."""


def create_app(targets: Sequence[Target], settings: ConsoleSettings | None = None, *, base_path: str = "") -> Starlette:
    """The console for some databases. Mount it, or run it with any ASGI server.

    `base_path` is for hosts that pass the whole path on, such as a dispatcher in Django's asgi.py; Starlette's and FastAPI's
    `mount` need none."""
    settings = settings or ConsoleSettings()
    databases = Databases(targets, pool_size=settings.pool_size)
    ingest = create_ingest(targets) if settings.ingest else None

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        # The lifespan of a mounted application is not run by itself.
        async with ingest.router.lifespan_context(ingest) if ingest else nullcontext():
            yield
        databases.close()

    site = Site(databases, settings, create_templates(), NAVIGATION)
    routes = page_routes()
    app = Starlette(
        routes=[
            *routes,
            Mount("/static/vendor", StaticFiles(directory=VENDOR, check_dir=False)),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, settings=settings, ended_sessions=site.ended_sessions)],
        exception_handlers={404: _not_found, 405: _wrong_method},
        lifespan=lifespan,
    )
    app.state.site = site
    base_path = base_path.rstrip("/")
    # Beside the guard: HTTP in has tokens of its own, and knows neither logins nor cookies.
    mounts = [Mount(f"{base_path}/ingest", ingest)] if ingest else []
    return Starlette(routes=[*mounts, Mount(base_path, app)], lifespan=lifespan) if base_path or mounts else app


def page_routes() -> list[BaseRoute]:
    """The routes of all pages. A route that changes something without the check of the token is a mistake in the code."""
    routes: list[BaseRoute] = [*(route for page in PAGES for route in page.ROUTES), *ROUTES]
    for route in routes:
        assert isinstance(route, Route)
        unsafe = (route.methods or set()) - set(SAFE_METHODS)
        assert not unsafe or isinstance(getattr(route.endpoint, "__self__", None), ChangeEndpoint), (
            f"{route.path}: make it with change(…)"
        )
    return routes


def _not_found(request: Request, _error: Exception) -> Response:
    if "headrace.user" not in request.scope or request.scope["path"].startswith("/static/"):
        return PlainTextResponse("There is no such file.\n", status_code=404)
    return render_error(make_view(request), NotFound(f"there is no page {request.scope['path']}"), 404)


def _wrong_method(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("This address does not take this method.\n", status_code=405)


def show_sign_in(view: View) -> Page:
    is_token = isinstance(view.site.settings.login, TokenLogin)
    return Page("sign_in.html", "Sign in", values={"is_token": is_token, "next": _next(view)}, is_live=False)


def sign_in(view: View) -> Page | Response:
    login = view.site.settings.login
    token = view.form.get("token", "")
    if not isinstance(login, TokenLogin) or login.user_of(token) is None:
        view.error = "There is no such token. Ask whoever runs this console for one."
        values = {"is_token": isinstance(login, TokenLogin), "next": _next(view)}
        return Page("sign_in.html", "Sign in", values=values, status=401, is_live=False)
    response = RedirectResponse(_next(view), status_code=303)
    secure = view.request.scope["scheme"] == "https"
    path = cookie_path(view.request)
    session = login.start_session(token)
    response.set_cookie(COOKIE, session, max_age=IDLE_S, httponly=True, samesite="strict", secure=secure, path=path)
    return response


def sign_out(view: View) -> Done | Response:
    login = view.site.settings.login
    # Record only valid sessions: nobody may fill the table with made-up ones.
    if isinstance(login, TokenLogin) and (session := login.session_of(view.request)):
        view.site.ended_sessions.add(session.hash, session.ends_at)
    response = RedirectResponse(view.url("/login"), status_code=303)
    response.delete_cookie(COOKIE, path=cookie_path(view.request))
    return response


def _next(view: View) -> str:
    """The page that was asked for: an address of this console only."""
    home = view.url("/")
    wanted = view.form.get("next") or view.query.get("next") or home
    is_own = wanted.startswith(cookie_path(view.request)) and not wanted.startswith(("//", "/\\"))
    return wanted if is_own else home


def search(view: View) -> Response:
    """Pages and objects whose names contain a text, as JSON: kind, label and address. For an id, its event or action."""
    text = view.query.get("q", "").strip()[:100]
    pages = [
        {"kind": "page", "label": link.label, "url": view.url(link.path)}
        for _, links in view.site.navigation
        for link in links
        if text.lower() in link.label.lower()
    ]
    with suppress(ValueError):
        if str(UUID(text)) == text.lower():
            pages += [{"kind": kind, "label": text, "url": view.url(f"/{kind}s/{text}")} for kind in ("event", "action")]
    results: dict[tuple[str, str], dict[str, str]] = {}
    if text:
        for row in view.fetch("find_names", text=text):
            kind, name = row["kind"], row["name"]
            path = quote(name, safe="/" if kind == "consumer" else "")
            url = view.url("/actions", action=name) if kind == "action" else view.url(f"/{kind}s/{path}")
            results[kind, name] = {"kind": kind, "label": cell_text(name), "url": url}
    return JSONResponse([*pages, *list(results.values())[:50]])


ROUTES = (
    read("/palette", search),
    read("/login", show_sign_in),
    change("/login", sign_in, form=show_sign_in),
    change("/logout", sign_out),
)
