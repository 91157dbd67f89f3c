"""One database and one server of HTTP in per module."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.core import Address
from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import create_topic, read_log
from headrace.web.http import IngestServer, IngestSettings, create_access_token
from tests.builders import drain, own_database

LOOPBACK = Address("127.0.0.1", 0)


@dataclass(frozen=True)
class Answer:
    """An answer of HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The class of a problem, after a look at its form."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        assert self.json["status"] == self.status and self.json["title"] and self.json["detail"]
        return str(self.json["error"])


@dataclass
class Client:
    """A client with a token, on one connection that stays open."""

    port: int
    token: str | None = field(default=None, repr=False)
    address: str = "127.0.0.1"
    """Where the client is: an address of the loopback network."""
    _conn: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Sends a request; underscores in the names of headers are dashes. A dict or list is sent as JSON."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, dict | list):
            body = json.dumps(body)
            names.setdefault("content-type", "application/json")
        if self.token:
            names.setdefault("authorization", f"Bearer {self.token}")
        if self._conn is None:
            self._conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30, source_address=(self.address, 0))
        try:
            self._conn.request(method, path, body, names)
            response = self._conn.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except BaseException:
            self.close()
            raise
        if answer.headers.get("connection") == "close":
            self.close()
        return answer

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.send("POST", path, body, **headers)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


@dataclass(frozen=True)
class RunningServer:
    """A running server and its database."""

    port: int
    database: Target
    conn: Connection

    def client(self, *rights: str, name: str | None = None, **options: Any) -> Client:
        """A client with a new token."""
        count = self.conn.execute("select count(*) from headrace.access_token").fetchone()
        name = name or f"token-{count and count[0]}"
        token = create_access_token(self.conn, name, rights or ("publish", "read"), **options)  # type: ignore[arg-type]
        return Client(self.port, token.token)

    def log(self, topic: str, namespace: str | None = None) -> list[Any]:
        """The events of a topic."""
        drain(self.conn)
        return read_log(self.conn, topic, limit=100_000, namespace=namespace)


@contextmanager
def serve(targets: list[Target], settings: IngestSettings) -> Iterator[int]:
    """Runs the server as a node does; yields its port."""
    ready, stop = threading.Event(), threading.Event()
    ports: list[int] = []

    async def run() -> None:
        async with IngestServer(targets, settings).serving() as address:
            ports.append(address.port)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(20), "the server did not start"
    try:
        yield ports[0]
    finally:
        stop.set()
        thread.join(timeout=10)


@contextmanager
def run_server(server: Server, settings: IngestSettings | None = None) -> Iterator[RunningServer]:
    with own_database(server, "ingest", template="headrace_template") as target, connect(target) as conn:
        create_topic(conn, "orders")
        with serve([target], settings or IngestSettings(address=LOOPBACK, cache_s=0.2, rate_per_s=100_000)) as port:
            yield RunningServer(port, target, conn)


@pytest.fixture(scope="module")
def http_server(server: Server) -> Iterator[RunningServer]:
    with run_server(server) as running:
        yield running


NewTopic = Callable[[], str]


@pytest.fixture
def topic(http_server: RunningServer, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    name = request.node.name.partition("[")[0].removeprefix("test_")[:60] + f"-{abs(hash(request.node.name)) % 10**6}"
    create_topic(http_server.conn, name)
    return name
