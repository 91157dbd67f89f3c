"""Registry: a node tells the database that it is there, what it handles, and that it lives.

Owns: the node's row. Promises: a heartbeat every 30 s; after an outage, or when it was forgotten meanwhile, it registers again;
rules for the event types it handles directly are there, also for topics made later."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from uuid import UUID

from uuid_utils.compat import uuid7

from headrace.core import JSON, encode
from headrace.db import AsyncConnection, Pool, query, retry_until_connected
from headrace.node.app import Headrace, On

logger = logging.getLogger(__name__)

HEARTBEAT_S = 30.0


def _default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a node is."""

    name: str = field(default_factory=_default_name)
    description: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    node_id: UUID = field(default_factory=uuid7)


class Registry:
    """A node's row in one database."""

    def __init__(self, app: Headrace, identity: Identity, pool: Pool) -> None:
        self._app = app
        self._identity = identity
        self._pool = pool

    async def register(self) -> None:
        """Makes the node known, and its rules for event types."""
        given = {
            "node_id": self._identity.node_id,
            "name": self._identity.name,
            "version": version("headrace"),
            "handlers": [handling.action for handling in self._app.handlings],
            "description": self._identity.description,
            "metadata": encode(self._identity.metadata),
            "namespace": self._app.namespace,
        }
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(query("node/register"), given)
            await make_rules(conn, self._app.ons, self._app.namespace)

    async def heartbeat(self) -> None:
        """A sign of life."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute("select headrace.heartbeat(%s)", (self._identity.node_id,))).fetchone()
            if row == (True,):
                await make_rules(conn, self._app.ons, self._app.namespace)
                return
        await self.register()

    async def deregister(self) -> None:
        """The node ends in order."""
        async with self._pool.connection() as conn:
            await conn.execute("select headrace.deregister_node(%s)", (self._identity.node_id,))

    async def run(self) -> None:
        """Heartbeats until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await retry_until_connected("heartbeat", self.heartbeat)


async def make_rules(conn: AsyncConnection, ons: Sequence[On], namespace: str | None) -> None:
    """Makes a rule without a condition for every event type that is handled directly; one that is there stays as it is."""
    for on in ons:
        given = {"namespace": namespace, "topic": on.topic, "event_type": on.event_type, "action": on.action}
        for statement in ("know_event_type", "know_action", "make_rule"):
            await conn.execute(query(f"node/{statement}"), given)
