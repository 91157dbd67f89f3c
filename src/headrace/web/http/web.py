"""What other rooms call. The web packages are imported only when a server is made, so that tokens and hooks can be managed without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.core import Address, Invalid
from headrace.db import Target
from headrace.web.http.settings import IngestSettings

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.types import ASGIApp


def create_app(targets: Sequence[Target], settings: IngestSettings | None = None) -> Starlette:
    """The web application for some databases. Mount it, or run it with any ASGI server."""
    try:
        from headrace.web.http.app import build_app
    except ModuleNotFoundError as error:
        raise Invalid(f"HTTP in needs the package {error.name!r}; install it: pip install 'headrace[http]'") from error
    return build_app(targets, settings or IngestSettings())


def server_config(app: ASGIApp, *, host: str, port: int) -> uvicorn.Config:
    """Settings of uvicorn with the limits of HTTP in: on the time for heads and answers, on their size, and on open connections."""
    from headrace.web.http import server

    return server.server_config(app, host=host, port=port)


class IngestServer:
    """A server for the application, in a thread with an event loop of its own."""

    def __init__(self, targets: Sequence[Target], settings: IngestSettings) -> None:
        self._targets = targets
        self._settings = settings

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Address]:
        """Serves while the block runs; yields the real address. Raises AddressInUse, or Invalid."""
        app = create_app(self._targets, self._settings)
        from headrace.web.http.server import serve_in_thread

        assert self._settings.address is not None, "a server needs an address"
        async with serve_in_thread(app, self._settings.address) as address:
            yield address
