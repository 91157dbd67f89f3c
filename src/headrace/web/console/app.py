"""The ASGI application: its pages, its static files, its login."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from headrace.core import NotFound
from headrace.db import Target
from headrace.web.console.assets import VENDOR
from headrace.web.console.databases import Databases
from headrace.web.console.guard import SAFE_METHODS, Guard
from headrace.web.console.pages import (
    access_tokens,
    actions,
    consumers,
    correlators,
    dead_letters,
    event,
    events,
    frame,
    hooks,
    nodes,
    now,
    relays,
    relays_editing,
    rules,
    schedules,
    topics,
)
from headrace.web.console.rendering import STATIC, create_templates, render_error
from headrace.web.console.routes import ChangeEndpoint, make_view
from headrace.web.console.settings import ConsoleSettings
from headrace.web.console.site import Link, Site
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
    relays_editing,
    relays,
    hooks,
    access_tokens,
    actions,
    dead_letters,
    nodes,
    frame,
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
    routes: list[BaseRoute] = [route for page in PAGES for route in page.ROUTES]
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
