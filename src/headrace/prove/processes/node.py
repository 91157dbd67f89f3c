"""The nodes of the workload: consumers and handlers that write their effects through their transactions, and the pipeline, a Spark
driver with its JVM, which runs the rules and correlators of one topic.

A node may get a failpoint: a statement of its loops before or after which its process kills itself, at the n-th time. For that
psycopg's `execute` and the exchanges of `headrace.db` are wrapped in this process alone; the product has no line for it. Failpoints
inside the database's functions are in `headrace.prove.faults.crashes`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq.abc import PGresult

from headrace.actions import Action
from headrace.consume import Batch, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Exchange, query
from headrace.node import Headrace, Identity, Node, WorkerSettings, run_loop
from headrace.prove.bugs import plant_in_node, plant_in_pipeline
from headrace.prove.evidence import HandlerEnded, HandlerStarted, History, now
from headrace.prove.processes import ProcessConfig, run_role
from headrace.prove.workload import (
    ATTEMPTS_MAX,
    CAREFUL,
    CAUTIOUS,
    EXPIRING,
    LAGGARD,
    LATER,
    LEDGER,
    MEND,
    ORDERS,
    POISON,
    SHIP,
    TRIPS,
    TROUBLE,
)

STATEMENTS = {
    "sequence": "headrace_internal.sequence_step(",
    "trim-outbox": "headrace_internal.trim_outbox(",
    "claim": "headrace.claim_events(",
    "claim-at": "headrace.claim_at(",
    "advance": "headrace.advance",
    "fail": "headrace.fail(",
    "react": "headrace_internal.react(",
    "correlate": "headrace_internal.correlate(",
    "claim-correlator": "headrace_internal.claim_correlator(",
    "write-instances": "headrace_internal.write_instances(",
    "deliver": "headrace_internal.deliver_correlations(",
    "settle-time": "headrace_internal.settle_time(",
    "claim-action": "headrace.claim_actions(",
    "ack": "headrace.ack_actions(",
    "fail-action": "headrace.fail_action(",
    "effect": "headrace_prove.effect",
    "consumed": "headrace_prove.consumed",
    "relay": '"headrace_prove"."headrace_relay"',
    "claim-schedule": "headrace_internal.claim_schedule(",
    "run-schedule": "headrace.run_schedule(",
}
NAMES = tuple(f"{side}:{name}" for name in STATEMENTS for side in ("before", "after"))


def arm(name: str, hit: int) -> None:
    """From now on this process dies when it reaches the failpoint for the n-th time."""
    side, _, statement = name.partition(":")
    text = STATEMENTS[statement]
    remaining = hit
    original = psycopg.AsyncCursor.execute

    def reach() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def execute(self: psycopg.AsyncCursor[Any], query: Any, *args: Any, **options: Any) -> psycopg.AsyncCursor[Any]:
        matches = text in statement_text(query, self)
        if matches and side == "before":
            reach()
        cursor = await original(self, query, *args, **options)
        if matches and side == "after":
            reach()
        return cursor

    psycopg.AsyncCursor.execute = execute  # type: ignore[method-assign, assignment]
    run_exchange = Exchange.run

    async def run(self: Exchange) -> list[PGresult]:
        matches = any(text in command for command, _ in self.commands)
        if matches and side == "before":
            reach()
        results = await run_exchange(self)
        # A commit in the same exchange has come after it.
        if matches and side == "after":
            reach()
        return results

    Exchange.run = run  # type: ignore[method-assign]


def statement_text(query: Any, cursor: psycopg.AsyncCursor[Any]) -> str:
    """A statement as text, whichever type psycopg got it in."""
    if isinstance(query, str):
        return query
    return query.as_string(cursor) if hasattr(query, "as_string") else bytes(query).decode()


EVENTS_MAX = 200
"""Small batches: the more batches, the more likely a kill hits one."""
SETTINGS = {"spark.driver.memory": "512m"}


def run_pipeline(config: ProcessConfig) -> None:
    """A pipeline until SIGTERM."""
    # Imported here: the other processes of the workload do not need Spark, and it takes a second to load.
    from headrace.spark import session
    from headrace.spark.pipeline import Pipeline

    # Spark's own processes inherit the environment; a query plan never shows it.
    os.environ["HEADRACE_DSN"] = config.dsn
    plant_in_pipeline(config.bugs)
    pipeline = Pipeline(session(brief=True, settings=SETTINGS), [TRIPS], events_max=EVENTS_MAX)
    signal.signal(signal.SIGTERM, lambda *_: pipeline.stop())
    pipeline.run()


EFFECT = "insert into headrace_prove.effect (action_id, action, attempt, node) values (%s, %s, %s, %s)"
PAUSE = "select pg_sleep(s.pause_s) from headrace_prove.switch s where s.name = %s"
IS_MENDED = "select exists (select from headrace_prove.mended m where m.action_id = %s)"
PAUSE_ACTION = "select headrace_prove.pause_action(%s, %s, %s, %s)"


class DeliberateError(Exception):
    """Raised by handlers of the workload on purpose."""


class Recorder:
    """Records what the handlers of a node do: effects through their transactions, start and end in the history."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self._history = history

    async def consume(self, consumer: str, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await tx.execute(PAUSE, (consumer,))
        parameters = {
            "consumer": consumer,
            "node": self.name,
            "partitions": [event.partition for event in events],
            "positions": [event.position for event in events],
            "event_ids": [event.id for event in events],
        }
        await tx.execute(query("prove/record_consumed"), parameters)

    async def handle(self, action: Action, tx: AsyncConnection) -> None:
        self._history.write(HandlerStarted(at=now(), node=self.name, action_id=action.id, attempt=action.attempt))
        try:
            await tx.execute(EFFECT, (action.id, action.action, action.attempt, self.name))
            await _fail_or_pause(action, tx, self.name)
        finally:
            self._history.write(HandlerEnded(at=now(), node=self.name, action_id=action.id, attempt=action.attempt))


async def _fail_or_pause(action: Action, tx: AsyncConnection, node: str) -> None:
    """What an action's handler does after its effect."""
    n = action.payload["n"] if isinstance(action.payload, dict) and "n" in action.payload else 0
    if action.action == "explode":
        raise DeliberateError("this action always fails")
    if action.action == "inspect" and action.attempt == 1 and isinstance(n, int) and n % 5 == 0:
        raise DeliberateError("this action fails once")
    if action.action == SHIP and action.attempt == 1 and isinstance(n, int) and n % 11 == 0:
        raise DeliberateError("this action fails once, and its key waits for it")
    if action.action == MEND and await (await tx.execute(IS_MENDED, (action.id,))).fetchone() == (False,):
        # No subclass of Exception: a failure like any other all the same.
        raise asyncio.CancelledError("not redriven yet") if action.attempt == 1 else SystemExit("not redriven yet")
    if action.action == "paint":
        await tx.execute(PAUSE_ACTION, (action.action, action.id, action.attempt, node))


def create_application(recorder: Recorder) -> Headrace:
    app = Headrace()
    dead_letter = Failure.dead_letter(attempts=2, backoff_s=0.1, backoff_max_s=0.5)

    @app.consumer(ORDERS, name=LEDGER, batch=Batch(max=50), failure=Failure.retry(backoff_s=0.1, backoff_max_s=1))
    async def ledger(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await recorder.consume(LEDGER, events, tx)

    @app.consumer(TROUBLE, name=CAREFUL, failure=dead_letter)
    async def careful(event: LoggedEvent, tx: AsyncConnection) -> None:
        await recorder.consume(CAREFUL, [event], tx)
        if event.type == POISON:
            raise DeliberateError("a poison event")

    @app.consumer(TROUBLE, name=CAUTIOUS, batch=Batch(max=8), failure=dead_letter)
    async def cautious(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await recorder.consume(CAUTIOUS, events, tx)
        if any(event.type == POISON for event in events):
            raise DeliberateError("a poison event in the batch")

    @app.consumer(EXPIRING, name=LAGGARD, batch=Batch(max=3), failure=Failure.retry(backoff_s=0.1, backoff_max_s=1))
    async def laggard(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await recorder.consume(LAGGARD, events, tx)
        await tx.execute("select pg_sleep(0.2)")

    for name in ("charge", "notify", "remind", "inspect"):
        app.handler(name, attempts=ATTEMPTS_MAX, backoff_s=0.1, backoff_max_s=1)(recorder.handle)
    app.handler("paint", attempts=ATTEMPTS_MAX, backoff_s=0.1, backoff_max_s=1, concurrency=2)(recorder.handle)
    app.handler(SHIP, attempts=ATTEMPTS_MAX, backoff_s=0.05, backoff_max_s=0.2, ordered=True)(recorder.handle)
    app.handler(LATER, attempts=ATTEMPTS_MAX, backoff_s=0.1, backoff_max_s=1)(recorder.handle)
    app.handler(MEND, attempts=2, backoff_s=0.1, backoff_max_s=0.2)(recorder.handle)
    app.handler("explode", attempts=2, backoff_s=0.1, backoff_max_s=1)(recorder.handle)
    return app


def run_node(config: ProcessConfig) -> None:
    """A node until SIGTERM."""
    plant_in_node(config.bugs, config.name)
    if config.failpoint:
        arm(config.failpoint, config.hit)
    name = f"{config.name}.{config.number}"
    app = create_application(Recorder(name, History(config.history)))

    async def run() -> None:
        node = Node(
            app,
            config.targets(),
            identity=Identity(name=name),
            work=WorkerSettings(lease_s=config.lease_s, no_handler_grace_s=120),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
        await node.run()

    run_loop(run())


if __name__ == "__main__":
    run_role({"node": run_node, "pipeline": run_pipeline})
