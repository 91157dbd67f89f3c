"""A generator of load over HTTP: `python -m bench.http_load PORT CONNECTIONS SECONDS PATH HEADERS BODY`, where HEADERS is JSON.

Each connection sends its next request when the answer to the last is there. A header value `{n}` becomes a new number per request.
Prints the number of answers with status 201, of others, and the seconds."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count

numbers = count(time.time_ns())


async def drive(port: int, request: bytes, until: float, statuses: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.monotonic() < until:
            writer.write(request.replace(b"{n}", str(next(numbers)).encode()))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            statuses.append(int(head[9:12]))
    finally:
        writer.close()


async def main(port: int, connections: int, seconds: float, path: str, headers: dict[str, str], body: str) -> None:
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body.encode())}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request = "\r\n".join([*lines, "", body]).encode()
    statuses: list[int] = []
    began = time.monotonic()
    await asyncio.gather(*(drive(port, request, began + seconds, statuses) for _ in range(connections)))
    good = statuses.count(201)
    print(json.dumps({"good": good, "bad": len(statuses) - good, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    words = sys.argv[1:]
    try:
        import uvloop
    except ModuleNotFoundError:
        run = asyncio.run
    else:
        run = uvloop.run
    run(main(int(words[0]), int(words[1]), float(words[2]), words[3], json.loads(words[4]), words[5]))
