"""The node of the workload: consumers and handlers that write effects through their transactions."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from headrace.actions import Action
from headrace.consume import Batch, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, query
from headrace.node import Headrace, Identity, Node, Work, run_loop
from headrace.prove.actor import Orders
from headrace.prove.bug import plant_in_node
from headrace.prove.failpoint import arm
from headrace.prove.history import Began, History, Left, now
from headrace.prove.workload import ATTEMPTS_MAX, CAREFUL, CAUTIOUS, EXPIRING, LAGGARD, LEDGER, ORDERS, POISON, TROUBLE

EFFECT = "insert into headrace_prove.effect (action_id, action, attempt, node) values (%s, %s, %s, %s)"
PAUSE = "select pg_sleep(s.pause_s) from headrace_prove.switch s where s.name = %s"


class Boom(Exception):
    """What a handler of the workload raises on purpose."""


class Scribe:
    """Writes what one node's handlers do: through the transaction, and beside it into the history."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self._history = history

    async def consumed(self, consumer: str, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await tx.execute(PAUSE, (consumer,))
        given = {
            "consumer": consumer,
            "node": self.name,
            "partitions": [one.partition for one in events],
            "positions": [one.position for one in events],
            "event_ids": [one.id for one in events],
        }
        await tx.execute(query("prove/record_consumed"), given)

    async def done(self, action: Action, tx: AsyncConnection) -> None:
        self._history.write(Began(at=now(), node=self.name, action_id=action.id, attempt=action.attempt))
        try:
            await tx.execute(EFFECT, (action.id, action.action, action.attempt, self.name))
            await _behave(action, tx)
        finally:
            self._history.write(Left(at=now(), node=self.name, action_id=action.id, attempt=action.attempt))


async def _behave(action: Action, tx: AsyncConnection) -> None:
    """What each action's handler does beside its effect."""
    n = action.payload["n"] if isinstance(action.payload, dict) and "n" in action.payload else 0
    if action.action == "explode":
        raise Boom("this one always fails")
    if action.action == "inspect" and action.attempt == 1 and isinstance(n, int) and n % 5 == 0:
        raise Boom("this one fails once")
    if action.action == "paint":
        await tx.execute("select pg_sleep(0.03)")
        await tx.execute(PAUSE, ("paint",))


def application(scribe: Scribe) -> Headrace:
    app = Headrace()

    @app.consumer(ORDERS, name=LEDGER, batch=Batch(max=50), failure=Failure.retry(backoff_s=0.1, backoff_max_s=1))
    async def ledger(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await scribe.consumed(LEDGER, events, tx)

    @app.consumer(TROUBLE, name=CAREFUL, failure=Failure.dead_letter(attempts=2, backoff_s=0.1, backoff_max_s=0.5))
    async def careful(event: LoggedEvent, tx: AsyncConnection) -> None:
        await scribe.consumed(CAREFUL, [event], tx)
        if event.type == POISON:
            raise Boom("a poison event")

    @app.consumer(
        TROUBLE, name=CAUTIOUS, batch=Batch(max=8), failure=Failure.dead_letter(attempts=2, backoff_s=0.1, backoff_max_s=0.5)
    )
    async def cautious(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await scribe.consumed(CAUTIOUS, events, tx)
        if any(event.type == POISON for event in events):
            raise Boom("poison among the events")

    @app.consumer(EXPIRING, name=LAGGARD, batch=Batch(max=3), failure=Failure.retry(backoff_s=0.1, backoff_max_s=1))
    async def laggard(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await scribe.consumed(LAGGARD, events, tx)
        await tx.execute("select pg_sleep(0.2)")

    for name in ("charge", "notify", "remind", "inspect"):
        app.handler(name, attempts=ATTEMPTS_MAX, backoff_s=0.1, backoff_max_s=1)(scribe.done)
    app.handler("paint", attempts=ATTEMPTS_MAX, backoff_s=0.1, backoff_max_s=1, concurrency=2)(scribe.done)
    app.handler("explode", attempts=2, backoff_s=0.1, backoff_max_s=1)(scribe.done)
    return app


def run_node(orders: Orders) -> None:
    """A node until SIGTERM."""
    plant_in_node(orders.bugs, orders.name)
    if orders.failpoint:
        arm(orders.failpoint, orders.hit)
    name = f"{orders.name}.{orders.number}"
    app = application(Scribe(name, History(orders.history)))

    async def run() -> None:
        node = Node(app, orders.targets(), identity=Identity(name=name), work=Work(lease_s=orders.lease_s, unhandled_s=120))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
        await node.run()

    run_loop(run())
