"""Server: runs the application in a thread of its own, with its own event loop, by uvicorn.

A flood of requests, a slow client or a large body then never stands in front of a node's loops in their event loop: the two share the
processor and nothing else. uvicorn itself waits for ever for the rest of a request's head; HeadTimeoutProtocol does not."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.core import Address, AddressInUse, Invalid
from headrace.web.http.request import HEAD_BYTES_MAX

logger = logging.getLogger(__name__)
_protocol_logger = logging.getLogger(f"{__name__}.protocol")
_protocol_logger.setLevel(logging.ERROR)

HEAD_S = 10.0
"""How long a client may take to send the head of a request."""
WRITE_S = 30.0
"""How long a client may take nothing of an answer that waits for it."""
KEEP_ALIVE_S = 30
CONNECTIONS_MAX = 2000
CONNECTIONS_PER_ADDRESS_MAX = 1000
"""So that one client alone can never take all places. It is large, because everybody behind one proxy has one address."""
START_S, STOP_S = 10.0, 10.0


class HeadTimeoutProtocol(H11Protocol):
    """Closes connections whose next request does not come to the end of its head in time, those whose client takes no answer, and
    those above CONNECTIONS_MAX or CONNECTIONS_PER_ADDRESS_MAX."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # A line per request, or per bad one, would let a flood fill the disk.
        self.access_log = False
        self.logger = _protocol_logger
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX or self._has_too_many(CONNECTIONS_PER_ADDRESS_MAX):
            transport.abort()
        else:
            self._timers["head"] = self.loop.call_later(HEAD_S, transport.abort)

    def _has_too_many(self, count_max: int) -> bool:
        """True if this client's address holds more connections than that."""
        if len(self.connections) <= count_max or self.client is None:
            return False
        address = self.client[0]
        clients = [getattr(other, "client", None) for other in self.connections]
        return len([client for client in clients if client is not None and client[0] == address]) > count_max

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_in_request = self.cycle is not None and not self.cycle.response_complete
        if is_in_request:
            self._stop_timer("head")
        elif "head" not in self._timers and not self.transport.is_closing():
            self._timers["head"] = self.loop.call_later(HEAD_S, self.transport.abort)

    def on_response_complete(self) -> None:
        # From here to the first byte of the next request, uvicorn's own timer runs.
        self._stop_timer("head")
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer("head")
        self._stop_timer("write")
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_timer("write")
        self._timers["write"] = self.loop.call_later(WRITE_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_timer("write")
        super().resume_writing()

    def _stop_timer(self, what: str) -> None:
        if timer := self._timers.pop(what, None):
            timer.cancel()


@asynccontextmanager
async def serve_in_thread(app: ASGIApp, address: Address) -> AsyncIterator[Address]:
    """Serves while the block runs; yields the real address."""
    listening = _bind(address)
    if not address.is_loopback:
        logger.warning(
            "HTTP in is served on %s without TLS; put a proxy with TLS in front of it, or listen on 127.0.0.1", address
        )
    server = _Server(server_config(app))
    thread = threading.Thread(target=server.run_thread, args=(listening,), name="headrace ingest", daemon=True)
    thread.start()
    try:
        await asyncio.to_thread(server.ready.wait, START_S)
        if not server.started:
            raise Invalid(f"HTTP in on {address} did not start within {START_S:.0f} s; the log has the reason")
        yield Address(address.host, listening.getsockname()[1])
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join, STOP_S)
        listening.close()


class _Config(uvicorn.Config):
    """uvicorn's settings, which leave the loggers of the process alone: a host application may run by uvicorn, too."""

    def configure_logging(self) -> None:
        pass


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it has started or failed to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    def run_thread(self, listening: socket.socket) -> None:
        try:
            self.run(sockets=[listening])
        except Exception:
            logger.exception("HTTP in has ended")
        finally:
            self.ready.set()


def server_config(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> uvicorn.Config:
    """uvicorn with our limits, for HTTP in and for the console. Not httptools, which has no limit for the head of a request.

    Proxy headers are off: what asks for the address of the peer gets the peer's own."""
    protocol: Any = HeadTimeoutProtocol
    return _Config(
        app,
        host=host,
        port=port,
        http=protocol,
        ws="none",
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )


def _bind(address: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(
                f"cannot listen on {address}: another process uses the port; stop it, or choose another port"
            ) from None
        raise Invalid(
            f"cannot listen on {address}: {error.strerror or error}; choose an address of this machine and a port above 1023"
        ) from None
    listening.setblocking(False)
    return listening
