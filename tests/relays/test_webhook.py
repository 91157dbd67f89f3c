"""Webhooks: signed, in order per key, repeated only after a failure, and safe against the receiver."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from headrace import Headrace
from headrace.actions import list_pauses, resume
from headrace.consume import consumer_lag
from headrace.core import DeliveryError, InvalidRelay
from headrace.db import Connection, Target
from headrace.relays import Relay, create_relay, get_relay
from headrace.relays.targets.webhook import Resolver
from tests.builders import fill, publish, topic
from tests.debian import find_program
from tests.relays.conftest import OLD_SECRET, SECRET, MakeRelay
from tests.relays.receiver import Receiver


@asynccontextmanager
async def node(database: Target) -> AsyncIterator[None]:
    async with Headrace().running([database]):
        yield


async def settled(conn: Connection, relay: str = "hook") -> None:
    """Waits until the relay has nothing left to deliver."""
    async with asyncio.timeout(30):
        while any(lag.lag_events for lag in consumer_lag(conn, consumer=f"relay.{relay}")):
            await asyncio.sleep(0.02)


async def test_every_event_arrives_once_signed_and_in_order_of_its_key(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn, partitions=3)
    fill(conn, 300, keys=7)
    make_relay(concurrency=2)
    async with node(database):
        await receiver.wait(300)
        await settled(conn)
    assert sorted(receiver.values) == list(range(1, 301)), "no event is missing, and none came twice"
    for request in receiver.accepted:
        assert Webhook(SECRET).verify(request.body, request.headers) == request.value
    for key in range(7):
        of_key = [n for n in receiver.values if isinstance(n, int) and n % 7 == key]
        assert of_key == sorted(of_key)
    ids = {str(row[0]) for row in conn.execute("select event_id from headrace.log").fetchall()}
    assert {request.id for request in receiver.accepted} == ids


async def test_one_request_of_a_key_is_in_flight_and_keys_are_concurrent(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    for n in range(40):
        conn.execute(
            "select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_key => %s, p_headers => jsonb_build_object('x-key', %s::text))",
            (n, f"k{n % 4}", f"k{n % 4}"),
        )
    receiver.delay_s = 0.05
    make_relay()
    async with node(database):
        await receiver.wait(40)
    assert all(count == 1 for count in receiver.most_in_flight.values())
    assert len(receiver.most_in_flight) == receiver.most_keys_in_flight == 4


async def test_a_failed_event_is_sent_again_and_its_neighbours_are_not(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 20, keys=20)
    make_relay("/refuse/13", attempts=3, options={"in_flight": 4})
    async with node(database):
        await receiver.wait(19)
        await settled(conn)
    assert sorted(receiver.values) == [n for n in range(1, 21) if n != 13]
    letters = conn.execute("select payload, reason, error, attempts from headrace.dead_letter").fetchall()
    assert [(row[0], row[3]) for row in letters] == [(13, 1)], "what the receiver refuses is not tried again"
    assert letters[0][2] == "TargetRefused: the receiver answered 400"


async def test_a_temporary_failure_is_retried_in_order(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 3, keys=1)
    make_relay("/fail-first/2", batch=2)
    async with node(database):
        await receiver.wait(3)
        await settled(conn)
    assert receiver.values == [1, 2, 3]
    assert conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,)


async def test_a_pause_that_the_receiver_asks_for_is_kept(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 3)
    make_relay("/retry-after/2", options={"in_flight": 1})
    async with node(database):
        await receiver.wait(3)
    first, second, *_ = receiver.requests
    assert second.at - first.at >= 1.9


async def test_gone_disables_the_relay_until_it_is_resumed(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 5)
    make_relay("/gone-after/2", options={"in_flight": 1}, batch=1, attempts=1)
    async with node(database):
        async with asyncio.timeout(20):
            while get_relay(conn, "hook").status != "disabled":
                await asyncio.sleep(0.02)
        state = get_relay(conn, "hook")
        assert state.paused
        assert state.error is not None and "410" in state.error
        [pause] = list_pauses(conn)
        assert (pause.kind, pause.name, pause.reason) == ("relay", "hook", state.error)
        count = len(receiver.requests)
        publish(conn, 6)
        await asyncio.sleep(1.5)
        assert len(receiver.requests) == count, "a disabled relay sends nothing"
        receiver.accepted.clear()
        resume(conn, "relay", "hook")
        await receiver.wait(2)
    assert receiver.values == [3, 4]


async def test_a_refused_event_stops_its_partition_if_nothing_may_be_skipped(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 3)
    make_relay("/refuse/2", when_exhausted="stop")
    async with node(database):
        async with asyncio.timeout(20):
            while [lag.state for lag in consumer_lag(conn, consumer="relay.hook")] != ["stopped"]:
                await asyncio.sleep(0.02)
    [lag] = consumer_lag(conn, consumer="relay.hook")
    assert (lag.position, lag.attempts, lag.error) == (1, 1, "TargetRefused: the receiver answered 400")
    assert conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,)


async def test_rotated_secrets_give_a_signature_each(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 1)
    check = {"secrets": ["env:RELAY_SECRET", "env:RELAY_OLD_SECRET"]}
    relay = make_relay(name="unused", active=False)
    relay = Relay(name="hook", topic="orders", target="webhook", options=check | {"url": relay.options["url"]}, start="earliest")
    create_relay(conn, relay)
    async with node(database):
        await receiver.wait(1)
    [request] = receiver.accepted
    assert len(request.headers["webhook-signature"].split()) == 2
    for secret in (SECRET, OLD_SECRET):
        Webhook(secret).verify(request.body, request.headers)


@pytest.mark.parametrize("path", ["/slow", "/drip", "/huge"])
async def test_a_hostile_response_costs_neither_memory_nor_time(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay, path: str
) -> None:
    topic(conn)
    fill(conn, 1)
    make_relay(path, options={"timeout_s": 0.5}, attempts=1)
    async with node(database):
        async with asyncio.timeout(20):
            if path == "/huge":
                await settled(conn)
            else:
                while conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,):
                    await asyncio.sleep(0.02)
    assert len(receiver.requests) <= 2


async def test_a_redirect_is_not_followed(conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay) -> None:
    topic(conn)
    fill(conn, 1)
    make_relay("/redirect/" + "http:%2F%2F127.0.0.1:1%2Fsecret", attempts=1)
    async with node(database):
        async with asyncio.timeout(20):
            while conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,):
                await asyncio.sleep(0.02)
    [(error,)] = conn.execute("select error from headrace.dead_letter").fetchall()
    assert "302, a redirect, which is not followed" in error


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254", "10.0.0.8",
             "192.168.1.1", "0.0.0.0", "[fe80::1]", "[64:ff9b::7f00:1]", "100.64.0.1", "[::7f00:1]", "[::ffff:0:10.0.0.1]", "[fec0::1]",
             "[200::1]", "[2a00:1450::5efe:10.0.0.1]", "192.88.99.1"],
)  # fmt: skip
async def test_private_addresses_are_refused_unless_the_operator_allows_their_network(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_RELAY_NETWORKS", raising=False)
    resolver = Resolver(host, 80)
    with pytest.raises(DeliveryError, match=r"private addresses .* HEADRACE_RELAY_NETWORKS"):
        await resolver.address()
    monkeypatch.setenv("HEADRACE_RELAY_NETWORKS", "203.0.113.0/24")
    with pytest.raises(DeliveryError, match="private addresses"):
        await resolver.address()
    monkeypatch.setenv("HEADRACE_RELAY_NETWORKS", "0.0.0.0/0, ::/0")
    await resolver.address()


async def test_no_definition_reaches_a_private_address_that_the_node_does_not_allow(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn)
    fill(conn, 1)
    with pytest.raises(InvalidRelay, match="allow_private"):
        make_relay(options={"allow_private": True})
    monkeypatch.delenv("HEADRACE_RELAY_NETWORKS")
    make_relay(options={"url": f"http://localhost:{receiver.port}/ok"}, attempts=1)
    # As plain SQL writes it.
    conn.execute("update headrace.relay set options = options || '{\"allow_private\": true}'")
    async with node(database):
        async with asyncio.timeout(20):
            while get_relay(conn, "hook").status != "invalid":
                await asyncio.sleep(0.02)
        conn.execute("update headrace.relay set options = options - 'allow_private'")
        async with asyncio.timeout(20):
            while conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,):
                await asyncio.sleep(0.02)
    assert receiver.requests == []
    [(error,)] = conn.execute("select error from headrace.dead_letter").fetchall()
    assert "private" in error


async def test_no_text_of_an_event_ends_a_header(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    hostile = "a\r\nx-evil: 1\r\n\r\nPOST /evil HTTP/1.1"
    conn.execute(
        "select headrace.publish('orders', 'placed', '{}', p_key => %s, p_headers => jsonb_build_object("
        "'x-note', %s::text, 'bad name', 'x', 'content-length', '0', 'webhook-id', 'forged', 'traceparent', '00-abc'))",
        (hostile, hostile + "é"),
    )
    make_relay(format="cloudevents-binary")
    async with node(database):
        await receiver.wait(1)
    [request] = receiver.requests
    assert "x-evil" not in request.headers
    assert request.headers["ce-partitionkey"].startswith("a%0D%0Ax-evil: 1%0D%0A")
    assert request.headers["x-note"].endswith("%C3%A9")
    assert request.headers["traceparent"] == "00-abc"
    assert request.id != "forged"
    assert request.headers["ce-type"] == "placed" and request.headers["ce-specversion"] == "1.0"


async def test_a_secret_is_in_no_error(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    topic(conn)
    fill(conn, 1)
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__RELAY_TOKEN", "Bearer hunter2hunter2")
    make_relay("/echo-secret", options={"headers": {"authorization": "env:RELAY_TOKEN"}}, attempts=2)
    async with node(database):
        async with asyncio.timeout(20):
            while conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,):
                await asyncio.sleep(0.02)
    assert receiver.requests[0].headers["authorization"] == "Bearer hunter2hunter2"
    [(error, traceback)] = conn.execute("select error, traceback from headrace.event_dead_letter").fetchall()
    assert "answered 500: ***" in error
    everything = "".join(
        str(conn.execute(f"select * from headrace.{view}").fetchall()) for view in ("relay", "relay_version", "relay_state")
    )
    assert "hunter2" not in f"{error}{traceback}{everything}{caplog.text}"


def certify(folder: Path, name: str) -> ssl.SSLContext:
    """A server's context with a certificate for a name, which is its own authority: folder/cert.pem."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [find_program("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


@pytest.mark.parametrize("name", ["localhost", "elsewhere.example"])
async def test_https_checks_the_name_although_the_address_is_pinned(
    conn: Connection, database: Target, make_relay: MakeRelay, receiver: Receiver, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, name: str,
) -> None:  # fmt: skip
    topic(conn)
    fill(conn, 1)
    server = await asyncio.start_server(receiver._serve, "127.0.0.1", 0, ssl=certify(tmp_path, name))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    port = server.sockets[0].getsockname()[1]
    make_relay(options={"url": f"https://localhost:{port}/ok"}, attempts=1)
    async with node(database):
        await settled(conn)
    server.close()
    if name == "localhost":
        assert receiver.accepted[0].headers["host"] == f"localhost:{port}"
        return
    assert receiver.requests == []
    [(error,)] = conn.execute("select error from headrace.dead_letter").fetchall()
    assert "certificate verify failed" in error
