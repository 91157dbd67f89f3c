"""The console in a process of its own: `python -m bench.console_server <dsn>`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn

from bench.child import answer
from headrace.db import Target
from headrace.web.console import create_app


async def main(dsn: str) -> None:
    config = uvicorn.Config(
        create_app([Target("bench", dsn)]), host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1
    )
    socket = config.bind_socket()
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[socket]))
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it.
        await asyncio.sleep(0.01)

    def report() -> dict[str, Any]:
        return {"address": f"http://127.0.0.1:{socket.getsockname()[1]}"}

    await answer(report)
    server.should_exit = True
    await running


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
