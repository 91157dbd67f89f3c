"""A node inside FastAPI and Django, in real uvicorn processes: it starts before the first request and stops after the last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from headrace.db import Connection, Target
from headrace.db.server import free_port
from headrace.integrations.asgi import with_node
from headrace.node import Headrace, list_nodes
from tests.builders import topic, wait_until
from tests.integrations.servers import request, start_uvicorn, stop, uvicorn, write_project

pytestmark = pytest.mark.lane("pg18")

EVENTS = """
    from headrace import Headrace

    events = Headrace()

    @events.on("placed", topic="orders")
    async def confirm(action, tx):
        await tx.execute("insert into mail values (%s)", (action.key,))
"""
FASTAPI = """
    import os
    from contextlib import asynccontextmanager

    import psycopg
    from fastapi import FastAPI, Request, Response

    from headrace import publish_async
    from shop_events import events

    @asynccontextmanager
    async def lifespan(application):
        async with events.running() as node:
            yield {"node": node}

    application = FastAPI(lifespan=lifespan)

    @application.post("/orders/{key}")
    async def place(key: str):
        async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"]) as conn:
            await publish_async(conn, "orders", "placed", key=key)

    @application.get("/health")
    async def health(request: Request, response: Response):
        health = request.state.node.health()
        response.status_code = 200 if health.is_healthy else 503
        return [failure.loop for failure in health.failures]
"""
DJANGO = """
    import os

    import django
    from django.conf import settings
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(os.environ["DATABASE_URL"])
    names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port"}
    database = {"ENGINE": "django.db.backends.postgresql", **{ours: parts[theirs] for ours, theirs in names.items()}}
    settings.configure(DATABASES={"default": database}, ROOT_URLCONF="shop_django", SECRET_KEY="x", ALLOWED_HOSTS=["*"])
    django.setup()

    from django.core.asgi import get_asgi_application
    from django.db import connection, transaction
    from django.http import JsonResponse
    from django.urls import path

    from headrace import publish
    from headrace.integrations.asgi import with_node
    from shop_events import events

    def place(request, key):
        with transaction.atomic():
            publish(connection, "orders", "placed", key=key)
        return JsonResponse({})

    def health(request):
        health = application.node.health()
        return JsonResponse([failure.loop for failure in health.failures], safe=False, status=200 if health.is_healthy else 503)

    urlpatterns = [path("orders/<str:key>", place), path("health", health)]
    application = with_node(get_asgi_application(), events)
"""


@pytest.fixture
def project(tmp_path: Path, conn: Connection) -> Path:
    topic(conn)
    conn.execute("create table mail (key text)")
    write_project(tmp_path, shop_events=EVENTS, shop_fastapi=FASTAPI, shop_django=DJANGO)
    return tmp_path


@pytest.mark.parametrize("framework", ["fastapi", "django"])
def test_node_serves_the_events_of_the_web_application(project: Path, conn: Connection, database: Target, framework: str) -> None:
    with uvicorn(project, f"shop_{framework}:application", database.dsn) as (port, process):
        assert [node.state for node in list_nodes(conn)] == ["alive"]
        for key in "abc":
            request(port, f"/orders/{key}", method="POST" if framework == "fastapi" else "GET")
        wait_until(lambda: conn.execute("select count(*) from mail").fetchone() == (3,), "three mails")
        assert request(port, "/health") == "[]"
        code, output = stop(process)
    assert code == 0 or code == -15, output
    assert "Application shutdown complete" in output
    assert [node.state for node in list_nodes(conn, stopped=True)] == ["stopped"]


@pytest.mark.parametrize("framework", ["fastapi", "django"])
def test_server_does_not_start_if_the_node_cannot(project: Path, conn: Connection, database: Target, framework: str) -> None:
    write_project(project, shop_events=EVENTS + '    events.consumer("nowhere", name="lost")(confirm)\n')
    process = start_uvicorn(project, f"shop_{framework}:application", free_port(), database.dsn)
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 3, output
    assert "UnknownTopic" in output and "nowhere" in output
    assert list_nodes(conn) == []


async def exchange(application: Any) -> tuple[list[str], asyncio.Task[None], asyncio.Queue[Any], asyncio.Queue[Any]]:
    """Starts an application's lifespan as a server does."""
    received: asyncio.Queue[Any] = asyncio.Queue()
    sent: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.create_task(application({"type": "lifespan", "state": {}}, received.get, sent.put))
    await received.put({"type": "lifespan.startup"})
    message = await asyncio.wait_for(sent.get(), 30)
    return [message["type"], message.get("message", "")], task, received, sent


async def test_wrapped_lifespan_starts_after_the_node_and_stops_before_it(conn: Connection, database: Target) -> None:
    states: list[list[str]] = []

    async def inner(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        for phase in ("startup", "shutdown"):
            await receive()
            states.append([node.state for node in list_nodes(conn)])
            await send({"type": f"lifespan.{phase}.complete"})

    answer, task, received, sent = await exchange(with_node(inner, Headrace(), dsn=database.dsn))
    assert answer[0] == "lifespan.startup.complete"
    await received.put({"type": "lifespan.shutdown"})
    assert (await asyncio.wait_for(sent.get(), 30))["type"] == "lifespan.shutdown.complete"
    await task
    assert states == [["alive"], ["alive"]]
    assert list_nodes(conn) == []


async def test_wrapped_application_that_fails_to_start_stops_the_node(conn: Connection, database: Target) -> None:
    async def inner(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no licence"})
        raise RuntimeError("no licence")

    answer, task, _, _ = await exchange(with_node(inner, Headrace(), dsn=database.dsn))
    await task
    assert answer[0] == "lifespan.startup.failed" and "no licence" in answer[1]
    assert list_nodes(conn) == []
