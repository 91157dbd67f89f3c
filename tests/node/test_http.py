"""A node over HTTP: what it answers to Prometheus, to health checks, and to clients that mean no good."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headrace.core import AddressInUse, Invalid, LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.outbox import publish
from headrace.node import Headrace, HttpSettings, RunningNode
from headrace.node.http_server import CONNECTIONS_MAX, HEAD_BYTES_MAX, Address
from tests.builders import through_proxy, topic

pytestmark = pytest.mark.lane("pg18")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def exchange(node: RunningNode, request: bytes) -> bytes:
    """What a client gets that sends these bytes and then only listens."""
    assert node.node.http_address is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", node.node.http_address.port)
    try:
        writer.write(request)
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def get(node: RunningNode, path: str) -> tuple[int, str]:
    answer = await exchange(node, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@asynccontextmanager
async def serving(app: Headrace, database: Target, *, ready_lag_s: float | None = None) -> AsyncIterator[RunningNode]:
    http = HttpSettings.parse("127.0.0.1:0", ready_lag_s=ready_lag_s)
    async with app.running([database], http=http) as node:
        yield node


@pytest.fixture
def app(conn: Connection) -> Headrace:
    topic(conn)
    app = Headrace()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    @app.handler("mail")
    async def mail(action: object, tx: AsyncConnection) -> None: ...

    return app


async def test_metrics_show_the_database_and_the_node(app: Headrace, conn: Connection, database: Target) -> None:
    async with serving(app, database) as node:
        for n in range(3):
            publish(conn, "orders", "placed", n)
        conn.execute("select headrace.send_action('mail')")
        await until(lambda: node.node.handled == 3 and node.node.actions == 1)
        status, text = await get(node, "/metrics")
    assert status == 200
    for line in (
        'headrace_sequenced_events_total{namespace="default",shard="test",topic="orders"} 3.0',
        'headrace_handler_duration_seconds_count{handler="orders/mailer",kind="consumer"} 3.0',
        'headrace_handler_duration_seconds_count{handler="mail",kind="action"} 1.0',
        'headrace_handler_duration_seconds_bucket{handler="mail",kind="action",le="+Inf"} 1.0',
        'headrace_database_up{shard="test"} 1.0',
        f'headrace_node_up{{namespace="default",node="{node.node.identity.name}",shard="test"}} 1.0',
        "# TYPE headrace_consumer_lag_seconds gauge",
        "# TYPE headrace_sequenced_events_total counter",
    ):
        assert line in text.splitlines(), text


async def test_metrics_are_served_while_the_database_is_down(app: Headrace, database: Target) -> None:
    with through_proxy(database) as (target, proxy):
        async with serving(app, target) as node:
            proxy.open = False
            proxy.cut()
            await until(lambda: not node.health().is_healthy)
            # A scrape shares a reading that is younger than a second, and readiness may have read just before the cut.
            async with asyncio.timeout(30):
                while 'headrace_database_up{shard="test"} 0.0' not in (answer := await get(node, "/metrics"))[1].splitlines():
                    await asyncio.sleep(0.1)
            status, text = answer
            assert status == 200
            assert any(line.startswith("headrace_loop_failures_total{") for line in text.splitlines())
            status, body = await get(node, "/healthz")
            assert (status, json.loads(body)["status"]) == (200, "ok"), "a restart would not help"
            status, body = await get(node, "/readyz")
            readiness = json.loads(body)
            assert (
                status == 503 and readiness["status"] == "failing" and any("fails" in reason for reason in readiness["reasons"])
            )
            proxy.open = True


async def test_ready_node_says_so(app: Headrace, database: Target) -> None:
    async with serving(app, database) as node:
        for path in ("/healthz", "/readyz"):
            status, body = await get(node, path)
            assert (status, json.loads(body)) == (200, {"status": "ok", "node": node.node.identity.name, "reasons": []})


async def test_node_is_not_ready_while_its_consumer_is_behind(conn: Connection, database: Target) -> None:
    topic(conn)
    app = Headrace()
    release = asyncio.Event()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None:
        await release.wait()

    async with serving(app, database, ready_lag_s=0.01) as node:
        publish(conn, "orders", "placed", 1)
        async with asyncio.timeout(30):
            while (await get(node, "/readyz"))[0] == 200:
                await asyncio.sleep(0.1)
        _, body = await get(node, "/readyz")
        assert "consumer orders/mailer is" in body and "more than 0.01 s" in body
        release.set()
        async with asyncio.timeout(30):
            while (await get(node, "/readyz"))[0] != 200:
                await asyncio.sleep(0.1)


async def test_node_on_a_database_that_lost_its_schema_is_not_ready(app: Headrace, conn: Connection, database: Target) -> None:
    async with serving(app, database) as node:
        conn.execute("delete from headrace_internal.release")
        status, body = await get(node, "/readyz")
    assert status == 503 and "headrace migrate" in body


async def test_loop_that_ended_or_blocked_fails_the_health_check(
    app: Headrace, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.node.endpoints.BLOCKED_S", 0.2)
    monkeypatch.setattr("headrace.node.endpoints.EVERY_S", 0.01)
    async with serving(app, database) as node:
        import time

        await asyncio.sleep(0.05)
        time.sleep(0.5)  # noqa: ASYNC251 - blocks the loop, as a bad handler does
        await asyncio.sleep(0.05)
        status, body = await get(node, "/healthz")
        assert status == 503 and "the event loop was blocked for " in body
        [loops] = node.node._databases
        loops._tasks[0].cancel()
        await until(loops._tasks[0].done)
        assert "has ended; restart the node" in (await get(node, "/healthz"))[1]


NO_GET = [
    (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405),
    (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405),
    (b"GET / HTTP/1.1\r\n\r\n", 404),
    (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", 404),
    (b"GET http://evil/metrics HTTP/1.1\r\n\r\n", 400),
    (b"GET /metrics\r\n\r\n", 400),
    (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES_MAX * 2 + b"\r\n\r\n", 400),
]


async def test_what_is_no_get_is_refused(app: Headrace, database: Target) -> None:
    async with serving(app, database) as node:
        for request, status in NO_GET:
            answer = await exchange(node, request)
            # A client that is still sending may lose the answer with the connection.
            is_lost = not answer and len(request) > HEAD_BYTES_MAX
            assert is_lost or answer.startswith(f"HTTP/1.1 {status} ".encode()), request[:40]
            assert (await get(node, "/healthz?x=1"))[0] == 200, request[:40]


async def test_head_has_no_body_and_connections_are_not_kept(app: Headrace, database: Target) -> None:
    async with serving(app, database) as node:
        answer = await exchange(node, b"HEAD /healthz HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Connection: close" in head and b"Content-Length: " in head and body == b""


async def test_slow_and_many_clients_hold_nothing(app: Headrace, database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.node.http_server.READ_S", 3)
    async with serving(app, database) as node:
        assert node.node.http_address is not None
        place = ("127.0.0.1", node.node.http_address.port)
        silent = [await asyncio.open_connection(*place) for _ in range(CONNECTIONS_MAX)]
        for _, writer in silent:
            writer.write(b"GET /metrics")
        assert await exchange(node, b"GET /healthz HTTP/1.1\r\n\r\n") == b"", "one too many"
        async with asyncio.timeout(30):
            assert [await reader.read() for reader, _ in silent] == [b""] * CONNECTIONS_MAX
        assert (await get(node, "/healthz"))[0] == 200
        for _, writer in silent:
            writer.close()


async def test_node_that_stops_does_not_wait_for_a_silent_client(app: Headrace, database: Target) -> None:
    async with serving(app, database) as node:
        assert node.node.http_address is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", node.node.http_address.port)
        writer.write(b"GET /metrics")
        assert (await get(node, "/healthz"))[0] == 200
    async with asyncio.timeout(30):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
    writer.close()


async def test_busy_port_is_a_clear_error_before_the_node_starts(app: Headrace, conn: Connection, database: Target) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(AddressInUse, match=f"127.0.0.1:{port}: another process uses the port"):
            async with app.running([database], http=f"127.0.0.1:{port}"):
                pytest.fail("the block must not start")
    assert conn.execute("select count(*) from headrace.node").fetchone() == (0,)
    with pytest.raises(Invalid, match=r"203\.0\.113\.1"):
        async with app.running([database], http="203.0.113.1:9464"):
            pytest.fail("the block must not start")


@pytest.mark.parametrize(
    "text", ["", "9464", ":9464", "localhost", "localhost:http", "localhost:99999", "::1:9464", "1.2.3.4:-1"]
)
def test_wrong_address_is_a_clear_error(text: str) -> None:
    with pytest.raises(Invalid, match=r"host:port|in brackets"):
        Address.parse(text)


def test_address_in_brackets_is_ipv6() -> None:
    assert Address.parse("[::1]:9464") == Address("::1", 9464)
    assert str(Address.parse("[::1]:9464")) == "[::1]:9464" and Address.parse("[::1]:1").is_loopback


async def test_address_beyond_this_machine_warns_once(app: Headrace, database: Target, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with app.running([database], http="0.0.0.0:0") as node:
            assert (await get(node, "/healthz"))[0] == 200
    assert [record.getMessage() for record in caplog.records if "without TLS" in record.getMessage()] != []


async def test_without_http_nothing_listens(app: Headrace, database: Target) -> None:
    async with app.running([database]) as node:
        assert node.node.http_address is None
