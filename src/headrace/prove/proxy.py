"""Proxy: a TCP proxy between processes and server that can cut all connections, reject new ones, or delay the data.

Runs on an event loop in a thread of its own. Promises: bytes pass unchanged and in order until a connection is cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from headrace.node import new_loop

CHUNK_BYTES = 65536


class Proxy:
    """A proxy to one port of a host. While `open` is false it rejects new connections."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.delay_s = 0.0
        self.open = True
        self._forwards = asyncio.Event()
        self._forwards.set()

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def forward_to(self, port: int) -> None:
        """Forwards new connections to another port of the host."""
        self._upstream = (self._upstream[0], port)

    def stop(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def cut(self) -> None:
        """Aborts every connection at once, in the middle of the data."""
        self._call(self._abort_all)

    def swallow(self) -> None:
        """From now on nothing arrives on either side; connections stay open, and new ones are accepted."""
        self._call(self._forwards.clear)

    def forward(self) -> None:
        """Ends `swallow`: what was sent meanwhile on connections that are still open arrives now."""
        self._call(self._forwards.set)

    def _call(self, act: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(5)

    def _abort_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, up_writer}
        try:
            await asyncio.gather(self._forward(reader, up_writer), self._forward(up_reader, writer))
        finally:
            self._writers -= {writer, up_writer}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # RuntimeError: uvloop raises it for a transport that was cut meanwhile.
        with suppress(OSError, asyncio.IncompleteReadError, RuntimeError):
            while data := await reader.read(CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._forwards.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
