"""docs/howto/embedding.md runs; real servers run the same code in tests/integrations."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headrace.db import Connection, Target
from headrace.log.outbox import publish
from tests.builders import topic, wait_until
from tests.docs.guide import run_guide


async def test_embedding_guide(conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(conn)
    conn.execute("create table mail (recipient text)")
    monkeypatch.setenv("HEADRACE_DSN", database.dsn)
    names: dict[str, Any] = await run_guide("howto/embedding", database, conn)
    application = names["application"]
    async with application.router.lifespan_context(application) as state:
        publish(conn, "orders", "placed", {"to": "ada@example.com"})
        await asyncio.to_thread(
            wait_until, lambda: conn.execute("select recipient from mail").fetchall() == [("ada@example.com",)], "the mail"
        )
        sent: list[Any] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/health", "query_string": b"", "headers": [], "state": dict(state)}
        await application(scope, receive, send)
    assert sent[0]["status"] == 200 and json.loads(sent[1]["body"]) == {}
