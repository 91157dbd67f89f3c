"""Where HTTP in runs: in a node, below the console, mounted in an application, and on several shards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from headrace.core import AddressInUse, LoggedEvent
from headrace.db import AsyncConnection, Connection, Server, Target, connect
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.node import Headrace, RunningNode
from headrace.web.console import ConsoleSettings, create_app as create_console
from headrace.web.http import IngestSettings, NewAccessToken, create_access_token, create_app
from tests.builders import ROOT, drain, own_database, through_proxy, topic, wait_until
from tests.web.http.conftest import LOOPBACK, Client, serve


@contextlib.contextmanager
def run_app(app: Any) -> Iterator[int]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1)
    socket, server = config.bind_socket(), uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the start of the application")
    try:
        yield socket.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=10)


async def post(node: RunningNode, client: Client, path: str) -> int:
    answer = await asyncio.to_thread(client.post, path, {})
    return answer.status


async def test_node_takes_events_and_hands_them_to_its_consumer(conn: Connection, database: Target) -> None:
    topic(conn)
    token = create_access_token(conn, "t", ["publish", "read"]).token
    app, handled = Headrace(), asyncio.Event()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None:
        handled.set()

    async with app.running([database], ingest="127.0.0.1:0") as node:
        address = node.node.ingest_address
        assert address is not None
        client = Client(address.port, token)
        waiting = asyncio.create_task(asyncio.to_thread(Client(address.port, token).get, "/topics/orders/events?wait_s=20"))
        assert await post(node, client, "/topics/orders/events?type=placed") == 201
        async with asyncio.timeout(20):
            await handled.wait()
            page = (await waiting).json
        assert [event["type"] for event in page["events"]] == ["placed"]
        with pytest.raises(AddressInUse):
            async with app.running([database], ingest=str(address)):
                pass
    with pytest.raises(OSError):
        client.close()
        client.get("/healthz")


@pytest.mark.parametrize("base_path", ["", "/ops"])
def test_console_serves_it_beside_its_login(conn: Connection, database: Target, base_path: str) -> None:
    topic(conn)
    token = create_access_token(conn, "t", ["publish"]).token
    settings = ConsoleSettings(ingest=True, read_only=True)
    with run_app(create_console([database], settings, base_path=base_path)) as port:
        client = Client(port, token)
        answer = client.post(f"{base_path}/ingest/topics/orders/events?type=a", {})
        assert answer.status == 201 and "set-cookie" not in answer.headers
        assert client.get(f"{base_path}/topics").status == 200
        assert client.get(f"{base_path}/ingest/nothing").error == "UnknownAddress"
    with run_app(create_console([database], ConsoleSettings(), base_path=base_path)) as port:
        answer = Client(port, token).post(f"{base_path}/ingest/topics/orders/events?type=a", {})
        assert answer.status in (403, 404, 405), "off by default"


def test_mounted_application_opens_its_connections_by_itself(conn: Connection, database: Target) -> None:
    topic(conn)
    token = create_access_token(conn, "t", ["publish", "read"]).token
    app = FastAPI()
    app.mount("/events", create_app([database]))
    with run_app(app) as port:
        client = Client(port, token)
        assert client.post("/events/topics/orders/events?type=a", {}).status == 201
        drain(conn)
        assert client.get("/events/topics/orders/events").json["next"] == 1


def test_outage_of_the_database_is_503_and_ends_with_it(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.http.databases.WAIT_S", 0.3)
    topic(conn)
    token = create_access_token(conn, "t", ["publish", "read"]).token
    with through_proxy(database) as (target, proxy), serve([target], IngestSettings(address=LOOPBACK)) as port:
        client = Client(port, token)
        path = "/topics/orders/events?type=a"
        assert client.post(path, {}, idempotency_key="0").status == 201
        waiting = threading.Thread(target=Client(port, token).get, args=("/topics/orders/events?after=latest&wait_s=30",))
        waiting.start()
        proxy.open = False
        proxy.cut()
        answers = [client.post(path, {}, idempotency_key="1") for _ in range(3)]
        assert {answer.status for answer in answers} == {503} and all(answer.headers["retry-after"] for answer in answers)
        proxy.open = True
        wait_until(lambda: client.post(path, {}, idempotency_key="1").status == 201, "the end of the outage")
        # The listener comes back, too, and wakes the reader that waited all the time.
        wait_until(lambda: bool(drain(conn)) or not waiting.is_alive(), "an event")
        waiting.join(30)
        assert not waiting.is_alive()
        drain(conn)
        assert client.get("/topics/orders/events").json["next"] == 2


def test_logs_of_a_host_application_stay_as_they_were(conn: Connection, database: Target) -> None:
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "uvicorn.access")]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    with serve([database], IngestSettings(address=LOOPBACK)) as port:
        assert Client(port).get("/healthz").status == 200
        assert [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers] == before


def test_shards_take_the_events_of_their_keys(server: Server, database: Target, conn: Connection) -> None:
    with own_database(server, "west", template="headrace_template") as second, connect(second) as west:
        token = NewAccessToken.generate()
        for shard in (conn, west):
            create_topic(shard, "orders")
            create_access_token(shard, "t", ["publish", "read"], token=token)
        # A row more, so that the token has another number there.
        create_access_token(west, "other", ["read"])
        targets = [Target("east", database.dsn), Target("west", second.dsn)]
        with serve(targets, IngestSettings(address=LOOPBACK)) as port:
            client = Client(port, token.token)
            for n in range(20):
                for _ in range(2):
                    path = f"/topics/orders/events?type=a&key=k{n}"
                    assert client.post(path, {"n": n}, idempotency_key=f"i{n}").status == 201
            counts = [drain(shard) for shard in (conn, west)]
            assert sum(counts) == 20 and min(counts) > 2
            assert client.get("/topics/orders/events").status == 422, "which shard?"
            pages = [client.get(f"/topics/orders/events?shard={name}").json["events"] for name in ("east", "west")]
            assert [len(page) for page in pages] == counts
            keys = [[event["key"] for event in page] for page in pages]
            cloudevents = [
                {"specversion": "1.0", "id": f"{key}", "source": "/x", "type": "a", "partitionkey": key}
                for key in (keys[0][0], keys[1][0])
            ]
            batch = "application/cloudevents-batch+json"
            assert client.post("/topics/orders/events", cloudevents, content_type=batch).status == 422
            assert client.post("/topics/orders/events", cloudevents[:1], content_type=batch).status == 201


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_flood_does_not_stop_the_loops_of_the_node(conn: Connection, database: Target) -> None:
    """Bad requests as fast as four processes can send them, and 300 connections that say nothing: events are handled all the while."""
    topic(conn)
    token = create_access_token(conn, "t", ["publish"], rate_per_s=1e6).token
    app, handled = Headrace(), 0

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None:
        nonlocal handled
        handled += 1

    async with app.running([database], ingest="127.0.0.1:0", http="127.0.0.1:0") as node:
        assert node.node.ingest_address is not None and node.node.http_address is not None
        port = node.node.ingest_address.port
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        words = ["-m", "bench.http_load", str(port), "16", "20", "/topics/orders/events?type=a"]
        headers = json.dumps({"authorization": f"Bearer {token}", "content-type": "application/json"})
        floods = [
            await asyncio.create_subprocess_exec(sys.executable, *words, headers, body, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
            for body in ("{", "[" * 5000, '"\\u0000"', "{}{}")
        ]
        for number in range(10):
            await asyncio.to_thread(publish, conn, "orders", "placed", number)
            async with asyncio.timeout(30):
                while handled <= number:
                    await asyncio.sleep(0.01)
        health = await asyncio.to_thread(Client(node.node.http_address.port).get, "/healthz")
        counts = [json.loads((await flood.communicate())[0]) for flood in floods]
        for _, writer in silent:
            writer.close()
    assert health.status == 200, health.body
    assert sum(count["bad"] for count in counts) > 1000 and all(count["good"] == 0 for count in counts)
