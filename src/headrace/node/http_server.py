"""HTTP server: answers GET and HEAD of a few fixed paths, for Prometheus and for health checks.

By asyncio alone, so that a node needs no extra package for its metrics: what it must understand of HTTP is one request line. It is
hardened: the head of a request has at most HEAD_BYTES_MAX bytes and READ_S seconds, a body is never read, every connection is closed after
one answer, and at most CONNECTIONS_MAX are open. It has no TLS and no login: numbers and names of topics are all it shows. An address
other than loopback is allowed, with a warning."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from headrace.core import Address, AddressInUse, Invalid

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8192
READ_S = 5.0
"""How long a client may take to send its request, and to take the answer."""
CONNECTIONS_MAX = 32


@dataclass(frozen=True)
class Response:
    """An answer."""

    body: bytes
    content_type: str
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] | None = None


Route = Callable[[], Awaitable[Response]]


class HttpServer:
    """Serves routes at an address."""

    def __init__(self, address: Address, routes: Mapping[str, Route]) -> None:
        self.address = address
        self._routes = routes
        self._clients: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Address]:
        """Serves while the block runs; yields the real address. Raises AddressInUse, or Invalid for an address that is not ours."""
        address = self.address
        try:
            server = await asyncio.start_server(self._serve, address.host, address.port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(
                    f"cannot listen on {address}: another process uses the port; stop it, or choose another port"
                ) from None
            raise Invalid(
                f"cannot listen on {address}: {reason}; choose an address of this machine and a port above 1023"
            ) from None
        if not address.is_loopback:
            logger.warning(
                "metrics are served on %s without TLS or a login; let only your monitoring reach it, or listen on 127.0.0.1",
                address,
            )
        try:
            yield Address(address.host, server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for client in list(self._clients):
                client.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            async with asyncio.timeout(READ_S):
                # Too many: closed without a word, before anything is read.
                method, path = ("", "") if len(self._clients) > CONNECTIONS_MAX else await _read_request(reader)
            if method:
                response = await self._respond(method, path)
                writer.write(_encode(response, with_body=method != "HEAD"))
                async with asyncio.timeout(READ_S):
                    await writer.drain()
        except (TimeoutError, OSError):
            pass  # The client is gone, or too slow.
        finally:
            self._clients.discard(writer)
            with suppress(OSError):
                writer.close()

    async def _respond(self, method: str, path: str) -> Response:
        if method == "invalid":
            return _text(HTTPStatus.BAD_REQUEST)
        if method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
        route = self._routes.get(path)
        if route is None:
            return _text(HTTPStatus.NOT_FOUND)
        try:
            return await route()
        except Exception:
            logger.exception("GET %s failed", path)
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    """The method and the path; ('', '') if the client sent nothing, ('invalid', '') for what is not a request."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return ("invalid", "") if error.partial else ("", "")
    except asyncio.LimitOverrunError:
        return "invalid", ""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[0].isalpha() or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return "invalid", ""
    return words[0], words[1].partition("?")[0]


def _text(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Response:
    return Response(f"{status.value} {status.phrase}\n".encode(), "text/plain; charset=utf-8", status, headers)


def _encode(response: Response, *, with_body: bool) -> bytes:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **(response.headers or {}),
    }
    lines = [
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (response.body if with_body else b"")
