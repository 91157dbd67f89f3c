"""A server of HTTP in as a process of its own, for tests that kill it: `python -m tests.web.http.processes DSN PORT KILL`.

With KILL it kills itself, with -9, between the commit and the answer of every request whose Idempotency-Key starts with `kill`."""

from __future__ import annotations

import os
import signal
import sys

import uvicorn

from headrace.core import Address
from headrace.db import Target
from headrace.web.http import IngestSettings, app, create_app, event_requests
from headrace.web.http.authentication import TokenRights
from headrace.web.http.databases import Database
from headrace.web.http.event_requests import EventRequest
from headrace.web.http.server import server_config


async def publish_and_die(
    database: Database, token: TokenRights, topic: str, request: EventRequest
) -> event_requests.Publication:
    publication = await event_requests.publish_request(database, token, topic, request)
    if (request.idempotency_key or "").startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return publication


def main(dsn: str, port: int, *, kill: bool) -> None:
    if kill:
        app.publish_request = publish_and_die  # type: ignore[attr-defined]
    settings = IngestSettings(address=Address("127.0.0.1", port), rate_per_s=1e9)
    config = server_config(create_app([Target("main", dsn)], settings))
    config.host, config.port = "127.0.0.1", port
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), kill=sys.argv[3] == "kill")
