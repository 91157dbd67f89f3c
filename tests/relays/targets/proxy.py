"""A proxy that can lose the answers of a server: what the client sends arrives, what the server answers does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.prove.proxy import CHUNK_BYTES, Proxy


class AnswerLosingProxy(Proxy):
    """While `loses_answers` is true, bytes from the server are read and thrown away."""

    loses_answers = False

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = writer.get_extra_info("peername")[1] == self._upstream[1]
        if upstream:
            await super()._forward(reader, writer)
            return
        try:
            while data := await reader.read(CHUNK_BYTES):
                if not self.loses_answers:
                    writer.write(data)
                    await writer.drain()
        except (OSError, RuntimeError):
            pass
        writer.close()


@contextmanager
def proxy_to(port: int) -> Iterator[AnswerLosingProxy]:
    proxy = AnswerLosingProxy("127.0.0.1", port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
