"""Registry: a node registers with a database what it handles, and sends heartbeats; and the list of nodes.

Owns: the node's row. Promises: a heartbeat every 30 s with a report of what the node did; after an outage, or if its row was deleted meanwhile, the node registers
again; the rules for the event types it handles directly exist, also for topics created later."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Literal
from uuid import UUID

from uuid_utils.compat import uuid7

from headrace.actions import ActionWorker
from headrace.consume import ConsumerRunner
from headrace.core import JSON, encode
from headrace.db import AsyncConnection, Connection, Loop, Pool, fetch_rows, fetch_value, fetch_value_async, query
from headrace.node.application import Application

HEARTBEAT_S = 30.0

_HANDLE = "select headrace.handle_event_type(%s, %s, %s, %s)"
_HEARTBEAT = "select headrace.heartbeat(%s, %s::jsonb)"
_REGISTER = "select headrace.register_node(%s, %s, %s, %s::text[], %s, %s::jsonb, %s)"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a node is."""

    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    description: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    node_id: UUID = field(default_factory=uuid7)


class Registry:
    """A node's row in one database."""

    def __init__(
        self,
        app: Application,
        identity: Identity,
        pool: Pool,
        *,
        sequencer: bool = False,
        connections: int | None = None,
        report: Callable[[], Mapping[str, JSON]] = dict,
        relays: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`relays` returns the consumers of the relays that the node runs now, as topic/consumer."""
        self._app = app
        self._identity = identity
        self._runs_sequencer = sequencer
        self._metadata = {**identity.metadata, **({"connections": connections} if connections else {})}
        self._pool = pool
        self._report = report
        self._relays = relays
        self.loop = Loop("heartbeat", step=self._step, delay_s=HEARTBEAT_S, pool=pool)

    async def register(self) -> None:
        """Registers the node, and creates the rules for its event types."""
        identity = self._identity
        actions = list(self._app.action_handlers)
        description = (identity.description, encode(self._metadata), self._app.namespace)
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(_REGISTER, (identity.node_id, identity.name, version("headrace"), actions, *description))
            await self._register_consumers(conn)
            if self._runs_sequencer:
                await conn.execute("select headrace_internal.mark_sequencer(%s)", (identity.node_id,))
            await conn.execute(_HEARTBEAT, (identity.node_id, encode(self._report())))
            await self._create_rules(conn)

    async def register_consumers(self) -> None:
        """Registers which consumers and relays the node runs now."""
        async with self._pool.connection() as conn:
            await self._register_consumers(conn)

    async def _register_consumers(self, conn: AsyncConnection) -> None:
        consumers = [f"{consumer.topic}/{consumer.name}" for consumer in self._app.consumers] + [*self._relays()]
        await conn.execute("select headrace.register_consumers(%s, %s::text[])", (self._identity.node_id, consumers))

    async def heartbeat(self) -> None:
        """Sends a heartbeat; a node that the database does not know registers again."""
        async with self._pool.connection() as conn:
            parameters = (self._identity.node_id, encode(self._report()))
            row = await (await conn.execute(_HEARTBEAT, parameters)).fetchone()
            if row == (True,):
                await self._create_rules(conn)
                return
        await self.register()

    async def deregister(self) -> None:
        """Records that the node has stopped."""
        await fetch_value_async(self._pool, "select headrace.deregister_node(%s)", (self._identity.node_id,))

    async def _step(self) -> float:
        await self.heartbeat()
        return HEARTBEAT_S

    async def _create_rules(self, conn: AsyncConnection) -> None:
        """Creates the rules for event types that the application handles directly; an existing rule stays as it is."""
        for rule in self._app.event_type_rules:
            await conn.execute(_HANDLE, (rule.event_type, rule.action, rule.topic, self._app.namespace))


class Activity:
    """What the loops of a node did between two heartbeats, for `headrace node show`.

    A partition is held only for a transaction, so there is no lasting holder to ask for: a node reports the partitions it handled."""

    def __init__(
        self,
        consumers: Sequence[ConsumerRunner] | Callable[[], Sequence[ConsumerRunner]],
        workers: Sequence[ActionWorker],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_consumers = consumers if callable(consumers) else lambda: consumers
        self._workers = workers
        self._clock = clock
        self._reported_at = clock()
        self._events: dict[int, Counter[int]] = {
            id(runner): Counter(runner.handled_by_partition) for runner in self._list_consumers()
        }
        self._actions = self._count_actions()

    def report(self) -> Mapping[str, JSON]:
        """What was handled since the report before, per minute."""
        now = self._clock()
        period_s = max(now - self._reported_at, 0.001)
        consumers: list[JSON] = []
        # A relay that started since has handled everything since; one that has ended is not reported.
        events_before, self._events = self._events, {}
        for runner in self._list_consumers():
            before, after = events_before.get(id(runner), Counter()), Counter(runner.handled_by_partition)
            self._events[id(runner)] = after
            partitions = sorted(partition for partition in after if after[partition] > before[partition])
            events_per_min = (after.total() - before.total()) * 60 / period_s
            consumers.append(
                {
                    "topic": runner.consumer.topic,
                    "consumer": runner.consumer.name,
                    "partitions": list[JSON](partitions),
                    "events_per_min": round(events_per_min, 1),
                }
            )
        actions_before, self._actions = self._actions, self._count_actions()
        handled = {name: self._actions[name] - actions_before[name] for name in sorted(self._actions)}
        self._reported_at = now
        return {
            "period_s": round(period_s, 1),
            "consumers": consumers,
            "actions": [{"action": name, "per_min": round(count * 60 / period_s, 1)} for name, count in handled.items()],
        }

    def _count_actions(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for worker in self._workers:
            counts.update({name: worker.handled_by_action[name] for name in worker.handled_by_action})
        return counts


@dataclass(frozen=True)
class NodeState:
    """A node: `alive`, `lost` (no heartbeat for 90 seconds, and not deregistered) or `stopped`."""

    node_id: UUID
    namespace: str
    name: str
    description: str | None
    metadata: Mapping[str, JSON]
    version: str
    state: Literal["alive", "lost", "stopped"]
    handlers: list[str]
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    sequencer: bool = False
    """It also runs the sequencer, rules, correlators and schedules."""
    report: Mapping[str, JSON] = field(default_factory=dict)
    """What it did between its last two heartbeats: consumers with the partitions they handled, and rates per minute."""


def list_nodes(conn: Connection, *, stopped: bool = False, namespace: str | None = None) -> list[NodeState]:
    """The nodes of a namespace, alive ones first; with `stopped` also those that have stopped."""
    return fetch_rows(conn, NodeState, query("node/nodes"), {"all": stopped, "namespace": namespace})


def forget_nodes(conn: Connection, node: str | None = None, *, namespace: str | None = None) -> int:
    """Deletes the row of a node that is lost or has stopped, by its name or id, or of all lost nodes; returns how many. Raises Conflict
    for a node that is alive."""
    return int(fetch_value(conn, "select headrace.forget_nodes(%s, %s)", (node, namespace)))
