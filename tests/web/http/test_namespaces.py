"""Namespaces share a server of HTTP in: what one sends or waits for takes neither connections nor places nor memory from another."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pytest

from headrace.core import NamespaceTurns
from headrace.db import Connection, Server, connect, create_namespace
from headrace.log.topics import create_topic
from headrace.web.http import IngestSettings, create_hook
from tests.builders import wait_until
from tests.web.http.conftest import LOOPBACK, Client, RunningServer, run_server
from tests.web.http.test_reading import Stream

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
def shared(server: Server) -> Iterator[RunningServer]:
    settings = IngestSettings(address=LOOPBACK, readers_max=10, buffered_bytes_max=64_000, connections=2, reader_connections=2)
    with run_server(server, settings) as http_server:
        for namespace in ("a", "b"):
            create_namespace(http_server.conn, namespace)
            create_topic(http_server.conn, "orders", namespace=namespace)
        yield http_server


def wait_for_locks(conn: Connection, count: int) -> None:
    wait_until(lambda: conn.execute(WAITING).fetchone() == (count,), f"{count} sessions that wait for a lock")


async def test_one_namespace_never_holds_the_reserve() -> None:
    turns = NamespaceTurns(3, reserve=1)
    begun: list[str] = []
    end = asyncio.Event()

    async def work(namespace: str) -> None:
        async with turns.turn(namespace):
            begun.append(namespace)
            await end.wait()

    tasks = [asyncio.create_task(work(namespace)) for namespace in ("a", "a", "a", "a", "b", "b")]
    await asyncio.sleep(0)
    assert begun == ["a", "a", "b"]
    end.set()
    await asyncio.gather(*tasks)
    assert sorted(begun) == ["a"] * 4 + ["b"] * 2
    async with turns.turn("a"), turns.turn("a"), turns.turn("c"):
        assert turns._free == 0


def test_publishers_of_one_namespace_that_wait_delay_no_other(shared: RunningServer) -> None:
    """A role of the namespace holds an idempotency key in an open transaction, and requests with that key wait for it."""
    a, b = (shared.client(name=f"of-{namespace}", namespace=namespace) for namespace in ("a", "b"))
    path = "/topics/orders/events?type=a"
    with connect(shared.database) as blocker, ThreadPoolExecutor(6) as pool:
        with blocker.transaction():
            blocker.execute(
                """insert into headrace_internal.idempotency_key (token_id, digest, request_digest, event_ids)
                select t.token_id, %s, sha256('x'), '{}' from headrace.access_token t where t.name = 'of-a'""",
                (sha256(b"k").digest(),),
            )
            waiting = [pool.submit(Client(shared.port, a.token).post, path, {}, idempotency_key="k") for _ in range(6)]
            wait_for_locks(shared.conn, 2)
            assert [b.post(path, {}).status for _ in range(5)] == [201] * 5
            assert not any(answer.done() for answer in waiting)
        assert {answer.result(30).status for answer in waiting} <= {422, 503}


def test_readers_of_one_namespace_that_wait_delay_no_other(shared: RunningServer) -> None:
    a, b = (shared.client(namespace=namespace) for namespace in ("a", "b"))
    for client in (a, b):
        assert client.post("/topics/orders/events?type=a", {}).status == 201
    shared.log("orders", "a")
    (topic_id,) = shared.conn.execute("select headrace.topic_id('orders', 'a')").fetchone() or (0,)
    with connect(shared.database) as blocker, ThreadPoolExecutor(6) as pool:
        with blocker.transaction():
            blocker.execute(f"lock table headrace_internal.log_{topic_id} in access exclusive mode")
            waiting = [pool.submit(Client(shared.port, a.token).get, f"/topics/orders/events?after=0&key={n}") for n in range(6)]
            wait_for_locks(shared.conn, 2)
            assert b.get("/topics/orders/events?after=0").status == 200
            assert not any(answer.done() for answer in waiting)
        assert {answer.result(30).status for answer in waiting} <= {200, 503}


def test_one_namespace_does_not_take_all_places_of_readers(shared: RunningServer) -> None:
    path = "/topics/orders/events"
    streams = [Stream(shared.client("read", namespace="a"), path) for _ in range(9)]
    assert {stream.response.status for stream in streams} == {200}
    assert shared.client("read", namespace="a").get(path).status == 503
    streams.append(Stream(shared.client("read", namespace="b"), path))
    assert streams[-1].response.status == 200
    for stream in streams:
        stream.close()


def test_slow_bodies_of_strangers_take_no_memory_from_others(shared: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows the address of a hook may send a body, because its signature is in the end what tells."""
    monkeypatch.setenv("HEADRACE_SECRET_A__GITHUB", "s" * 32)
    create_hook(shared.conn, "github", "orders", "github", ["env:GITHUB"], namespace="a")
    head = "POST /hooks/a/github HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 30000\r\n\r\n"
    client = shared.client("publish", namespace="b")
    strangers = [socket.create_connection(("127.0.0.1", shared.port)) for _ in range(3)]
    # Together they would fill the memory but for a few bytes.
    for stranger, sent in zip(strangers, (29_000, 29_000, 5_999), strict=True):
        stranger.sendall(head.encode() + b"x" * sent)
    strangers[1].settimeout(30)
    assert b" 503 " in strangers[1].recv(100), "one of them is too many"
    assert client.post("/topics/orders/events?type=a", {"n": 1}).status == 201
    for stranger in strangers:
        stranger.close()
