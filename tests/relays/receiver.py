"""A receiver of webhooks: an HTTP server that records what it has accepted, and answers as the path says.

`python -m tests.relays.receiver PORT FILE` runs it as a process; every accepted request is a line of JSON in the file before it is
answered. Paths: /ok · /status/N · /fail-first/N (every webhook-id is answered 503 N times) · /refuse/TEXT (400 if the body has the
text) · /retry-after/SECONDS (429 once) · /gone-after/N · /redirect/ADDRESS · /huge · /slow · /drip."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote


@dataclass
class Request:
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)
    raw_head: str = ""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def value(self) -> object:
        return json.loads(self.body)


class Receiver:
    """Serves on a port until closed."""

    def __init__(self, file: Path | None = None) -> None:
        self.accepted: list[Request] = []
        self.requests: list[Request] = []
        self.in_flight: Counter[str] = Counter()
        """By the key in the header x-key."""
        self.most_in_flight: Counter[str] = Counter()
        self.most_keys_in_flight = 0
        self.delay_s = 0.0
        self.port = 0
        self._attempts: Counter[str] = Counter()
        self._file = file.open("a", encoding="utf-8") if file else None
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def values(self) -> list[object]:
        return [request.value for request in self.accepted]

    async def wait(self, count: int, *, timeout_s: float = 30) -> None:
        """Waits until this many requests were accepted."""
        async with asyncio.timeout(timeout_s):
            while len(self.accepted) < count:
                await asyncio.sleep(0.01)

    async def wait_requests(self, count: int, *, timeout_s: float = 30) -> None:
        async with asyncio.timeout(timeout_s):
            while len(self.requests) < count:
                await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *lines = head.rstrip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(line.split()[1], headers, body, raw_head=head)
                self.requests.append(request)
                key = headers.get("x-key", "")
                self.in_flight[key] += 1
                self.most_in_flight[key] = max(self.most_in_flight[key], self.in_flight[key])
                self.most_keys_in_flight = max(self.most_keys_in_flight, sum(count > 0 for count in self.in_flight.values()))
                try:
                    await self._answer(request, writer)
                finally:
                    self.in_flight[key] -= 1
        writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        kind, _, argument = request.path.removeprefix("/").partition("/")
        argument = unquote(argument)
        self._attempts[request.headers.get("webhook-id", "")] += 1
        status, extra = 200, ""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if kind == "status":
            status = int(argument)
        elif kind == "fail-first" and self._attempts[request.id] <= int(argument):
            status = 503
        elif kind == "refuse" and argument.encode() in request.body:
            status = 400
        elif kind == "retry-after" and len(self.requests) == 1:
            status, extra = 429, f"retry-after: {argument}\r\n"
        elif kind == "gone-after" and len(self.accepted) >= int(argument):
            status = 410
        elif kind == "redirect":
            status, extra = 302, f"location: {argument}\r\n"
        elif kind == "echo-secret":
            status = 500
        if kind in ("huge", "slow", "drip"):
            await self._misbehave(kind, writer)
            return
        if 200 <= status < 300:
            self._accept(request)
        answer = request.headers.get("authorization", "") if kind == "echo-secret" else ""
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(answer)}\r\n{extra}\r\n{answer}".encode())
        await writer.drain()

    async def _misbehave(self, kind: str, writer: asyncio.StreamWriter) -> None:
        if kind == "slow":
            await asyncio.sleep(3600)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
        chunk = b"x" * (65536 if kind == "huge" else 1)
        while True:
            writer.write(chunk)
            await writer.drain()
            if kind == "drip":
                await asyncio.sleep(0.05)

    def _accept(self, request: Request) -> None:
        self.accepted.append(request)
        if self._file is not None:
            entry = {"id": request.headers.get("webhook-id"), "key": request.headers.get("x-key"), "value": request.value}
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on the event loop of the test."""
    receiver = Receiver()
    await receiver.start()
    try:
        yield receiver
    finally:
        await receiver.stop()


async def main() -> None:
    receiver = Receiver(Path(sys.argv[2]))
    await receiver.start(int(sys.argv[1]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
