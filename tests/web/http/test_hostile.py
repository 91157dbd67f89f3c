"""Clients that mean no good, or are broken: the server goes on, and publishes nothing of theirs."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from headrace.db import Server
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.web.http import IngestSettings
from tests.builders import drain, wait_until
from tests.web.http.conftest import LOOPBACK, Answer, Client, RunningServer, run_server

BODY_S = HEAD_S = 1.0


@pytest.fixture(scope="module")
def http_server(server: Server) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.web.http.server.HEAD_S", HEAD_S)
        settings = IngestSettings(address=LOOPBACK, body_s=BODY_S, cache_s=0.2, body_bytes_max=100_000, rate_per_s=100_000)
        with run_server(server, settings) as running:
            yield running


def head(client: Client, *lines: str) -> bytes:
    """The head of a request to publish, with more lines."""
    own = [
        "POST /topics/orders/events?type=a HTTP/1.1",
        "host: x",
        f"authorization: Bearer {client.token}",
        "content-type: application/json",
    ]
    return "\r\n".join([*own, *lines, "", ""]).encode()


def exchange(http_server: RunningServer, *parts: bytes, timeout_s: float = 10) -> bytes:
    """What a client gets that sends these bytes and then only listens; b"" if the connection is cut."""
    with socket.create_connection(("127.0.0.1", http_server.port), timeout=timeout_s) as conn:
        try:
            for part in parts:
                conn.sendall(part)
            answer = b""
            while chunk := conn.recv(65536):
                answer += chunk
            return answer
        except ConnectionError:
            return b""
        except TimeoutError:
            raise AssertionError(f"the connection stays open after {answer!r}") from None


def status(answer: bytes) -> int:
    return int(answer.split()[1]) if answer else 0


def test_half_requests_are_cut_off_and_publish_nothing(http_server: RunningServer) -> None:
    client = http_server.client("publish")
    cases = {
        "nothing": (b"", {0}),
        "half a line": (b"POST /topics/or", {0}),
        "half a head": (head(client)[:-2], {0}),
        "half a body": (head(client, "content-length: 50") + b'{"n":', {408}),
        "no body": (head(client, "content-length: 50"), {408}),
        "half a chunk": (head(client, "transfer-encoding: chunked") + b"5\r\n{", {408}),
        "no last chunk": (head(client, "transfer-encoding: chunked") + b"2\r\n{}\r\n", {408}),
    }
    with ThreadPoolExecutor(len(cases)) as pool:
        answers = dict(zip(cases, pool.map(lambda case: exchange(http_server, case[0]), cases.values()), strict=True))
    assert {name: status(answer) for name, answer in answers.items()} == {name: min(case[1]) for name, case in cases.items()}
    assert http_server.log("orders") == []


def test_requests_that_are_no_http_are_rejected(http_server: RunningServer) -> None:
    client = http_server.client("publish")
    cases = {
        "garbage": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", {400}),
        "two lengths": (head(client, "content-length: 2", "content-length: 3") + b"{}", {400}),
        "negative length": (head(client, "content-length: -1") + b"{}", {400}),
        "length that is no number": (head(client, "content-length: 2x") + b"{}", {400}),
        "chunk size that is no number": (head(client, "transfer-encoding: chunked") + b"zz\r\n{}\r\n", {0, 400, 408}),
        "other transfer encoding": (head(client, "transfer-encoding: gzip") + b"{}", {400, 501}),
        "NUL in a header": (head(client, "event-key: a\0b", "content-length: 2") + b"{}", {400}),
        "folded header": (head(client, "event-key: a", " b", "content-length: 2", "event-header-a: \x0b") + b"{}", {400}),
        "long header": (head(client, "event-key: " + "k" * 70_000), {0, 400, 431}),
        "many headers": (head(client, *[f"x-{n}: {n}" for n in range(20_000)]), {0, 400, 431}),
        "long line": (b"POST /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", {0, 400}),
    }
    for name, (request, expected) in cases.items():
        assert status(exchange(http_server, request)) in expected, name
    assert http_server.log("orders") == []


def test_body_longer_than_its_length_publishes_its_length_only(http_server: RunningServer) -> None:
    """What follows is the next request, and none."""
    client = http_server.client("publish")
    answer = exchange(http_server, head(client, "content-length: 2") + b"{}garbage\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 2 and b"201" in answer and b"400" in answer
    assert [event.payload for event in http_server.log("orders")][-1:] == [{}]


def test_smuggled_request_is_rejected(http_server: RunningServer) -> None:
    """Length and chunks together: a proxy may count one, the server the other."""
    client = http_server.client("publish")
    before = len(http_server.log("orders"))
    smuggled = b"0\r\n\r\n" + head(client, "content-length: 2") + b"{}"
    exchange(http_server, head(client, "content-length: 4", "transfer-encoding: chunked", "connection: close") + smuggled)
    assert len(http_server.log("orders")) == before


def test_endless_body_is_413(http_server: RunningServer) -> None:
    client = http_server.client("publish")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    assert status(exchange(http_server, head(client, "transfer-encoding: chunked"), *[chunk] * 4, b"0\r\n\r\n")) == 413
    assert status(exchange(http_server, head(client, "transfer-encoding: chunked"), *[chunk] * 200)) in (0, 413)
    assert status(exchange(http_server, head(client, "content-length: 99999999999999999999"))) == 413


def test_body_is_not_received_before_the_token_is_checked(http_server: RunningServer) -> None:
    request = b"POST /topics/orders/events?type=a HTTP/1.1\r\nhost: x\r\ncontent-length: 50000\r\nconnection: close\r\n\r\n"
    assert status(exchange(http_server, request)) == 401


def test_slow_clients_hold_nobody_up(http_server: RunningServer) -> None:
    """More of them than there are connections to the database, in every phase of a request."""
    client = http_server.client("publish")
    phases = [b"", b"POST /", head(client, "content-length: 9"), head(client, "transfer-encoding: chunked") + b"1\r\n"]
    conns = [socket.create_connection(("127.0.0.1", http_server.port)) for _ in range(200)]
    try:
        for number, conn in enumerate(conns):
            conn.sendall(phases[number % len(phases)])
        began = time.monotonic()
        assert all(client.post("/topics/orders/events?type=fast", {}).status == 201 for _ in range(20))
        assert time.monotonic() - began < 5
        for conn in conns:
            conn.settimeout(15)
            with suppress(ConnectionError):
                while conn.recv(65536):
                    pass
    finally:
        for conn in conns:
            conn.close()


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_client_that_takes_no_answer_is_cut_off(http_server: RunningServer, monkeypatch: pytest.MonkeyPatch, accept: str) -> None:
    monkeypatch.setattr("headrace.web.http.server.WRITE_S", 0.5)
    name = f"wide-{accept.partition('/')[0]}"
    create_topic(http_server.conn, name)
    with http_server.conn.transaction():
        for _ in range(12):
            publish(http_server.conn, name, "a", "x" * 1_000_000)
    drain(http_server.conn)
    client = http_server.client("read")
    with socket.socket() as conn:
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        conn.settimeout(20)
        conn.connect(("127.0.0.1", http_server.port))
        conn.sendall(
            f"GET /topics/{name}/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {client.token}\r\naccept: {accept}\r\n\r\n".encode()
        )
        conn.recv(100)
        peer = conn.getsockname()[1]
        wait_until(lambda: not is_connected(http_server.port, peer), "the end of the connection", timeout_s=20)
    assert client.get(f"/topics/{name}/events?limit=1").status == 200


def is_connected(port: int, peer: int) -> bool:
    """Does the server still have the connection? By the system's table: the client reads nothing."""
    with Path("/proc/net/tcp").open() as table:
        rows = [line.split() for line in table]
    return any(row[1].endswith(f":{port:04X}") and row[2].endswith(f":{peer:04X}") and row[3] == "01" for row in rows[1:])


def test_unknown_tokens_are_limited_by_address_and_leave_valid_ones_alone(server: Server) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # One unknown token per address, and room for two in the cache.
        patch.setattr("headrace.web.http.databases.UNKNOWN_PER_S", 0.001)
        patch.setattr("headrace.web.http.databases.ENTRIES_MAX", 2)
        with run_server(server, IngestSettings(address=LOOPBACK, cache_s=0.0)) as http_server:
            used, fresh = http_server.client("publish", name="used"), http_server.client("publish", name="fresh")

            def ask(token: str | None, address: str) -> int:
                client = Client(http_server.port, token, address)
                try:
                    return client.post("/topics/orders/events?type=a", {}).status
                finally:
                    client.close()

            assert ask(used.token, "127.0.0.1") == 201
            assert [ask(f"hrt_{n}", "127.0.0.1") for n in range(3)] == [401, 429, 429]
            assert [ask(f"hrt_{n}", f"127.0.0.{n}") for n in range(10, 14)] == [401] * 4, "each address has its own bucket"
            assert ask(used.token, "127.0.0.1") == 201, "a token that was valid before needs none of it"
            assert ask(fresh.token, "127.0.0.2") == 201, "nor does a new one from elsewhere"
            newest = http_server.client("publish", name="newest")
            assert ask("hrt_1", "127.0.0.1") == 429
            assert ask(newest.token, "127.0.0.1") == 201, "nor one from the same address, such as that of a proxy"


BAD_REQUESTS: list[Callable[[Client, int], Answer]] = [
    lambda client, n: client.post("/topics/orders/events?type=a", b"{", content_type="application/json"),
    lambda client, n: client.post("/topics/none/events?type=a", {}),
    lambda client, n: client.post("/topics/orders/events", {}, authorization=f"Bearer hrt_{n}"),
    lambda client, n: client.post(f"/hooks/none-{n}", {}),
    lambda client, n: client.post("/topics/orders/events?type=a", b"[" * 1000, content_type="application/json"),
    lambda client, n: client.send("DELETE", f"/{n}"),
    lambda client, n: client.get("/topics/orders/events?after=zzz"),
    lambda client, n: client.post("/topics/orders/events?type=a", {}, idempotency_key="k" * 300),
]
WORKERS = 8


def flood(http_server: RunningServer, token: str, requests: int) -> list[int]:
    """Bad requests of many kinds, on connections that stay open where the server lets them. Returns the statuses of the answers."""

    def run(worker: int) -> list[int]:
        client = Client(http_server.port, token)
        statuses = [BAD_REQUESTS[n % len(BAD_REQUESTS)](client, worker * requests + n).status for n in range(requests // WORKERS)]
        client.close()
        return statuses

    with ThreadPoolExecutor(WORKERS) as pool:
        return [status for statuses in pool.map(run, range(WORKERS)) for status in statuses]


def load(http_server: RunningServer, topic: str, *, bad: int) -> None:
    """Good requests with idempotency keys, each sent twice by two clients at once, while others are slow, send halves and bad requests."""
    good, attacker = http_server.client("publish"), http_server.client("publish")
    slow = [socket.create_connection(("127.0.0.1", http_server.port)) for _ in range(50)]
    phases = [b"", b"POST /", head(attacker, "content-length: 9"), head(attacker, "content-length: 9") + b'{"half"']
    for number, conn in enumerate(slow):
        conn.sendall(phases[number % len(phases)])
    is_over = Event()

    def publish_keys(_worker: int) -> dict[str, str]:
        """The id that each key was answered with."""
        client, ids = Client(http_server.port, good.token), dict[str, str]()
        number = 0
        while not is_over.is_set() or number < 50:
            number += 1
            # All clients use the same keys, so that two send the same one at the same time.
            answer = client.post(f"/topics/{topic}/events?type=a", {"n": number}, idempotency_key=f"key-{number}")
            assert answer.status == 201, answer
            [ids[f"key-{number}"]] = answer.json["ids"]
        client.close()
        return ids

    with ThreadPoolExecutor(4) as pool:
        publishers = [pool.submit(publish_keys, worker) for worker in range(4)]
        statuses = flood(http_server, attacker.token, bad)
        is_over.set()
        answered = [publisher.result(60) for publisher in publishers]
    for conn in slow:
        conn.close()
    assert len(statuses) == bad // WORKERS * WORKERS and all(400 <= status < 500 for status in statuses), set(statuses)
    ids = {key: answers[key] for answers in answered for key in answers}
    assert all(answers[key] == ids[key] for answers in answered for key in answers), "one key, one answer"
    events = http_server.log(topic)
    assert sorted(str(event.id) for event in events) == sorted(ids.values()), (
        "what was accepted is committed, once, and nothing else"
    )
    assert sorted(event.payload["n"] for event in events) == list(range(1, len(events) + 1))


def test_under_load_and_attack_what_is_accepted_is_committed_once(http_server: RunningServer, topic: str) -> None:
    before = len(http_server.log("orders"))
    load(http_server, topic, bad=800)
    assert len(http_server.log("orders")) == before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_under_load_and_ten_thousand_bad_requests_what_is_accepted_is_committed_once(
    http_server: RunningServer, topic: str
) -> None:
    load(http_server, topic, bad=10_000)
