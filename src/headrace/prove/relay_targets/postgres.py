"""PostgreSQL: a second server with a table, or with a headrace of its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.core import JSON
from headrace.db import Connection, Server, Target, connect, migrate, query
from headrace.log.topics import create_topic
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import RelayTarget
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
