"""Endpoints that are no brokers: PostgreSQL, as a second server with a table or with a headrace of its own, and a webhook, as a receiver that
verifies the signature and writes a line for every request before it answers.

`python -m headrace.prove.relay_targets.endpoints PORT FILE VARIABLE` is the receiver's process. A line is written by one call, so that a
kill loses no line that was answered for."""

from __future__ import annotations

import base64
import os
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.core import JSON, Invalid
from headrace.db import Connection, Server, Target, connect, migrate, query
from headrace.log.topics import create_topic
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets import TIMEOUT_S, RelayTarget, ServerProcess
from headrace.prove.workload import ORDERS, PARTITIONS

SETTINGS = {"shared_buffers": "32MB", "max_connections": "30"}
COPY = "orders_copy"


class PostgresTarget(RelayTarget):
    """A table in a second server."""

    kind = relay_kind = "postgres"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = Server(self.folder / "pg", settings=SETTINGS)

    @classmethod
    def require(cls) -> None:
        """The checker's own server is one."""

    def start(self) -> None:
        self._server.start()
        self.proxy.forward_to(self._server.port)

    def kill(self) -> None:
        self._server.kill()

    def stop(self) -> None:
        with suppress(Exception):
            self._server.stop()
        self._server.kill()

    async def prepare(self) -> None:
        with connect(Target("relayed", self._server.dsn())) as conn:
            self._prepare(conn)

    def _prepare(self, conn: Connection) -> None:
        conn.execute(query("prove/create_copy"))

    def options(self) -> dict[str, JSON]:
        parts = conninfo_to_dict(self._server.dsn())
        address: dict[str, JSON] = {"host": "127.0.0.1", "port": self.proxy.port, "dbname": str(parts["dbname"])}
        return address | {"user": str(parts["user"])} | self._table_options()

    def _table_options(self) -> dict[str, JSON]:
        return {"table": f"public.{COPY}", "columns": ["partition", "position", "event_id"]}

    def more_fields(self) -> dict[str, Any]:
        return {"format": "template", "mapping": {"partition": "$.partition", "position": "$.position", "event_id": "$.id"}}

    async def read(self) -> list[RelayedEvent]:
        with psycopg.connect(self._server.dsn(), autocommit=True) as conn:
            return [RelayedEvent(*row) for row in conn.execute(query("prove/read_copy")).fetchall()]


class HeadraceTarget(PostgresTarget):
    """A topic of another headrace; it numbers the events itself, so they carry their place in a mapping."""

    kind = "headrace"

    def _prepare(self, conn: Connection) -> None:
        migrate(conn)
        create_topic(conn, ORDERS, partitions=PARTITIONS)

    def _table_options(self) -> dict[str, JSON]:
        return {"topic": ORDERS}

    async def read(self) -> list[RelayedEvent]:
        with psycopg.connect(self._server.dsn(), autocommit=True) as conn:
            while conn.execute("select headrace.sequence()").fetchall():
                pass
            return [RelayedEvent(*row) for row in conn.execute(query("prove/read_relayed_topic"), {"topic": ORDERS}).fetchall()]


SECRET = "PROVE_WEBHOOK"
SECRET_VARIABLE = f"HEADRACE_SECRET_DEFAULT__{SECRET}"


class WebhookTarget(ServerProcess):
    """A receiver in a process of its own."""

    kind = relay_kind = "webhook"
    delivery = "at least once"

    @classmethod
    def require(cls) -> None:
        missing = [name for name in ("uvicorn", "httpx2", "standardwebhooks") if find_spec(name) is None]
        if missing:
            raise Invalid(f"the relay webhook needs {', '.join(missing)}; install: pip install 'headrace[http,relay]'")

    def command(self) -> list[str]:
        os.environ["HEADRACE_RELAY_NETWORKS"] = "127.0.0.1/32"
        os.environ.setdefault(SECRET_VARIABLE, "whsec_" + base64.b64encode(os.urandom(32)).decode())
        file = str(self.folder / "received.jsonl")
        return [sys.executable, "-m", "headrace.prove.relay_targets.endpoints", str(self.port), file, SECRET_VARIABLE]

    def options(self) -> dict[str, JSON]:
        return {
            "url": f"http://127.0.0.1:{self.proxy.port}/",
            "secret": f"env:{SECRET}",
            "timeout_s": TIMEOUT_S,
        }

    def more_fields(self) -> dict[str, Any]:
        return {"format": "template", "mapping": {"id": "$.id", "partition": "$.partition", "position": "$.position"}}

    async def read(self) -> list[RelayedEvent]:
        lines = (self.folder / "received.jsonl").read_bytes().splitlines()
        return [msgspec.json.decode(line, type=RelayedEvent) for line in lines]


class Receiver:
    """An ASGI application. Its packages are imported in the receiver's process alone."""

    def __init__(self, file: str, secret: str) -> None:
        from standardwebhooks import Webhook

        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._webhook = Webhook(secret)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, is_complete = b"", False
        while not is_complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            is_complete = not message.get("more_body", False)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        status = self._accept(body, headers)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def _accept(self, body: bytes, headers: dict[str, str]) -> int:
        from standardwebhooks import WebhookVerificationError

        try:
            fields = self._webhook.verify(body, headers)
        except WebhookVerificationError:
            return 401
        if fields["id"] != headers["webhook-id"]:
            return 400
        event = RelayedEvent(fields["partition"], fields["position"], fields["id"], time.time())
        os.write(self._file, msgspec.json.encode(event) + b"\n")
        return 204


def main() -> None:
    import uvicorn

    port, file, variable = sys.argv[1:]
    uvicorn.run(
        Receiver(file, os.environ[variable]),
        host="127.0.0.1",
        port=int(port),
        lifespan="off",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
