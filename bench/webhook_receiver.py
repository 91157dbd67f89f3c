"""A receiver of webhooks that does as little as possible: `python -m bench.webhook_receiver PORT`. Answers 204 to every request."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Receiver(asyncio.Protocol):
    """One connection: reads heads and bodies by their content-length."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = int(self._buffer[:end].lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(ANSWER)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(int(sys.argv[1])))
