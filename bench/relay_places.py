"""Places that relays deliver to without a broker: a webhook's receiver, and a table of PostgreSQL. With the plain loops beside them."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import httpx2
import psycopg
from psycopg.conninfo import conninfo_to_dict
from standardwebhooks import Webhook
from tests.relays.targets.builders import RELAY
from tests.relays.targets.servers import accepts

from bench.lab import Lab
from bench.relay_producers import PlainProducer
from headrace.core import JSON
from headrace.db import free_port
from headrace.relays.targets import open_target
from headrace.relays.targets.target import Message, Target

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
IN_FLIGHT = 32


class WebhookPlace:
    """A receiver in a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process = subprocess.Popen([sys.executable, "-m", "bench.webhook_receiver", str(self.port)])
        while not accepts(self.port):
            time.sleep(0.05)

    async def prepare(self) -> str:
        return f"orders{uuid4().hex[:8]}"

    def target(self, **_: JSON) -> Target:
        options: dict[str, JSON] = {"url": self.url, "secret": "env:RELAY_X", "in_flight": IN_FLIGHT}
        return open_target("webhook", RELAY, options, {"secret": SECRET})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(10)


async def plain_webhook(place: Any) -> PlainProducer:
    """Signed POSTs by httpx2's client, 32 at the same time, one per key."""
    limits = httpx2.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
    client, signer = httpx2.AsyncClient(limits=limits), Webhook(SECRET)

    async def send(messages: Sequence[Message]) -> None:
        chains: dict[str, deque[Message]] = {}
        for message in messages:
            chains.setdefault(message.key or str(message.event_id), deque()).append(message)
        waiting = deque(chains.values())

        async def work() -> None:
            while waiting:
                for message in waiting.popleft():
                    now = datetime.now(UTC)
                    signature = signer.sign(str(message.event_id), now, message.body.decode())
                    headers = {
                        **message.headers,
                        "content-type": message.content_type,
                        "webhook-id": str(message.event_id),
                        "webhook-timestamp": str(int(now.timestamp())),
                        "webhook-signature": signature,
                    }
                    (await client.post(place.url, content=message.body, headers=headers)).raise_for_status()

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))

    return PlainProducer(send, client.aclose)


class PostgresPlace:
    """A table in a database of the benchmark's server."""

    def __init__(self, lab: Lab) -> None:
        self._dsn = lab.server.dsn()
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute("create table relayed (number int, padding text)")
            conn.execute("create table plain_relayed (number int, padding text)")
            conn.execute("create table plain_ledger (topic text primary key, position bigint not null)")

    async def prepare(self) -> str:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute("truncate relayed, plain_relayed")
            conn.execute("checkpoint")
        return f"orders{uuid4().hex[:8]}"

    def target(self, **_: JSON) -> Target:
        parts = conninfo_to_dict(self._dsn)
        address: dict[str, JSON] = {name: str(parts[name]) for name in ("host", "dbname", "user")}
        options = address | {"port": int(str(parts["port"])), "table": "relayed", "columns": ["number", "padding"]}
        return open_target("postgres", RELAY, options, {})

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)


async def plain_postgres(place: Any) -> PlainProducer:
    """A transaction per batch: the rows by executemany, and the position beside them."""
    conn = await cast(PostgresPlace, place).connect()

    async def send(messages: Sequence[Message]) -> None:
        topic = messages[0].topic
        async with conn.transaction():
            await conn.execute(
                "insert into plain_ledger values (%s, 0) on conflict (topic) do update set position = plain_ledger.position returning position",
                (topic,),
            )
            rows = [json.loads(message.body) for message in messages]
            async with conn.cursor() as cursor:
                await cursor.executemany(
                    "insert into plain_relayed values (%s, %s)", [(row["number"], row["padding"]) for row in rows]
                )
            await conn.execute("update plain_ledger set position = %s where topic = %s", (messages[-1].position, topic))

    return PlainProducer(send, conn.close)
