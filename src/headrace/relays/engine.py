"""Relay engine: runs the active relays of one namespace on one database, each as a consumer in tasks of its own.

Owns: which relays a node runs. Promises: a relay, written by whatever means, runs within a second in its newest version; an invalid
one is marked with its error and never run; a relay that fails is retried with growing pauses and shown, and the others go on; a
relay whose target is gone is disabled, with the reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from headrace.consume import Batch, Consumer, ConsumerRunner, DuePoll, Failure
from headrace.core import HeadraceError, PackageMissing
from headrace.db import (
    Listener,
    Loop,
    OwnPool,
    Parameter,
    Pool,
    StopSignal,
    Subscription,
    Unit,
    cancel_tasks,
    clear_failure,
    fetch_value_async,
    query,
    record_failure,
    run_to_end,
)
from headrace.relays.delivery import Delivery, is_redrive
from headrace.relays.relay import RELAYS, Relay, check_relay

logger = logging.getLogger(__name__)

IDLE_S: Final = 10.0
"""Longest wait without a notification: one may be lost with its connection."""
STOP_S: Final = 50.0
"""How long a delivery may go on after its relay was changed or dropped."""
RELEASE_S: Final = 2.0
_REPORT = "select headrace.report_relay(%s, %s, %s, %s)"


@dataclass(frozen=True)
class RunnableRelay:
    """One version of an active relay, and the consumer that has its cursors."""

    relay: Relay
    relay_id: int
    uid: str
    version: int
    namespace: str
    consumer_id: int
    topic_id: int
    is_pending: bool

    @property
    def name(self) -> str:
        return self.relay.name


class RelayRunner(ConsumerRunner):
    """Runs one version of a relay until it is stopped. It claims nothing once there is a newer one."""

    _claim_statement = query("relays/claim_events")

    def __init__(
        self,
        runnable: RunnableRelay,
        delivery: Delivery,
        pool: Pool,
        subscription: Subscription,
        stop: StopSignal,
        due: DuePoll | None = None,
    ) -> None:
        relay = runnable.relay
        consumer = Consumer(
            topic=relay.topic,
            name=relay.consumer,
            handler=delivery.deliver,
            batch=Batch(max=relay.batch),
            failure=Failure(relay.attempts, relay.backoff_s, relay.backoff_max_s, relay.when_exhausted, relay.key_order),
            concurrency=relay.concurrency,
            # A target gets messages of one partition, and a failure repeats no other partition.
            partitions_max=1,
            where=None if relay.condition == "true" else relay.condition,
            namespace=runnable.namespace,
            raw_payload=True,
        )
        super().__init__(consumer, pool, subscription, stop, due=due)
        self._runnable = runnable

    async def register(self) -> None:
        """Takes the consumer that the database keeps for the relay, with its condition."""
        self._delivery.consumer_id, self._topic_id = self._runnable.consumer_id, self._runnable.topic_id
        self._subscription.filter = str(self._topic_id)
        await self._compile_condition()

    def _claim_parameters(self, *, is_alone: bool) -> tuple[Parameter, ...]:
        return (*super()._claim_parameters(is_alone=is_alone), self._runnable.relay_id, self._runnable.version)

    async def redrive_once(self) -> bool:
        token = is_redrive.set(True)
        try:
            return await super().redrive_once()
        finally:
            is_redrive.reset(token)


class RunningRelay:
    """A version of a relay with its tasks."""

    def __init__(
        self, runnable: RunnableRelay, pool: Pool, relay_pool: Pool, subscription: Subscription, due: DuePoll | None
    ) -> None:
        self.runnable = runnable
        self._pool = pool
        self._stop = StopSignal()
        self.subscription = subscription
        self._delivery = Delivery(runnable.relay, namespace=runnable.namespace, uid=runnable.uid, on_gone=self._disable)
        self.runner = RelayRunner(runnable, self._delivery, relay_pool, subscription, self._stop, due)
        self._task = asyncio.create_task(self._run(), name=f"relay {runnable.name}")

    async def _run(self) -> None:
        try:
            await self.runner.run()
        finally:
            await run_to_end(self._close())

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(RELEASE_S):
                await self.runner.release()
        except Exception as error:  # noqa: BLE001 - the next claim finds out by itself
            logger.debug("relay %s could not give back what it had: %s", self.runnable.name, error)
        await self._delivery.close()

    async def _disable(self, reason: str) -> None:
        logger.warning("relay %s is disabled: %s", self.runnable.name, reason)
        await fetch_value_async(self._pool, _REPORT, (self.runnable.relay_id, self.runnable.version, "disabled", reason))

    async def stop(self) -> None:
        """Lets a running delivery finish, and ends."""
        self._stop.set()
        try:
            await asyncio.wait([self._task], timeout=STOP_S)
        finally:
            # Do this even if whoever waits is cancelled: no delivery outlives its node.
            await cancel_tasks(*({self._task} if not self._task.done() else ()))


class RelayEngine:
    """Runs the relays of a namespace until `stop` is set."""

    def __init__(
        self,
        pool: Pool,
        relay_pool: OwnPool,
        written: Subscription,
        stop: StopSignal,
        *,
        listener: Listener,
        due: DuePoll | None = None,
        namespace: str | None = None,
        on_change: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`relay_pool` has the connections that deliveries hold, and is opened with the first relay; `pool` has those of short steps.
        The sessions of both are pinned. `due` wakes the relays for what nobody notifies of; without it each polls. `on_change` is called
        when other relays run than before."""
        self._pool = pool
        self._relay_pool = relay_pool
        self._written = written
        self._listener = listener
        self._due = due
        self._stop = stop
        self._namespace = namespace
        self._on_change = on_change
        self._running: dict[int, RunningRelay] = {}
        self._ending: dict[int, asyncio.Task[None]] = {}
        """Relays whose last delivery is not finished yet. The others do not wait for it."""
        self._is_pool_open = False
        self._lacking: set[tuple[int, int]] = set()
        """Versions of relays that need a package which this node does not have."""

    @property
    def runners(self) -> list[RelayRunner]:
        """The relays that run here."""
        return [running.runner for running in self._running.values()]

    @property
    def consumers(self) -> list[str]:
        """Their consumers, as topic/consumer."""
        return [f"{running.runnable.relay.topic}/{running.runnable.relay.consumer}" for running in self._running.values()]

    async def run(self) -> None:
        try:
            await Loop("relays", self._stop, step=self._step, wake_up=self._written, pool=self._pool).run()
        finally:
            for relay_id in list(self._running):
                self._end(relay_id)
            await asyncio.gather(*self._ending.values())

    async def _step(self) -> float:
        await self.update()
        return IDLE_S

    async def list_runnable(self) -> list[RunnableRelay]:
        """The relays that may run."""
        statement = sql.SQL(query("relays/running")).format(columns=RELAYS.columns("r"))
        async with self._pool.connection() as conn, conn.cursor(row_factory=RELAYS.row_factory(_runnable)) as cursor:
            return await (await cursor.execute(statement, {"namespace": self._namespace})).fetchall()

    async def update(self) -> None:
        """Starts relays that are new, ends those that are gone, and restarts those that have changed."""
        wanted = {runnable.relay_id: runnable for runnable in await self.list_runnable()}
        before = self.consumers
        ended = [
            relay_id
            for relay_id, running in self._running.items()
            if relay_id not in wanted or wanted[relay_id].version != running.runnable.version
        ]
        for relay_id in ended:
            self._end(relay_id)
        for relay_id, runnable in wanted.items():
            is_known = relay_id in self._running or relay_id in self._ending
            if not is_known and (relay_id, runnable.version) not in self._lacking and await self._check(runnable):
                await self._start(runnable)
        if self._on_change is not None and self.consumers != before:
            await self._on_change()

    async def _check(self, runnable: RunnableRelay) -> bool:
        """Checks a relay, which SQL may have written, and records the result."""
        error: str | None = None
        unit = Unit("relay", runnable.namespace, runnable.name)
        try:
            check_relay(runnable.relay)
        except PackageMissing as problem:
            # Another node may have it; this one lacks it until it starts again.
            self._lacking.add((runnable.relay_id, runnable.version))
            logger.error("relay %s cannot run here: %s", runnable.name, problem)
            await record_failure(self._pool, unit, problem)
            return False
        except HeadraceError as problem:
            error = str(problem)
        except Exception as problem:
            # A bug of ours, or a package that cannot be imported, must not stop the other relays.
            logger.exception("relay %s could not be checked", runnable.name)
            error = f"could not be checked: {type(problem).__name__}: {problem}"
        if runnable.is_pending or error:
            status = "invalid" if error else "valid"
            await fetch_value_async(self._pool, _REPORT, (runnable.relay_id, runnable.version, status, error))
        if error:
            logger.error("relay %s is invalid: %s", runnable.name, error)
        else:
            await clear_failure(self._pool, unit)
        return error is None

    async def _start(self, runnable: RunnableRelay) -> None:
        if not self._is_pool_open:
            await self._relay_pool.open()
            self._is_pool_open = True
        self._running[runnable.relay_id] = RunningRelay(
            runnable, self._pool, self._relay_pool, self._listener.subscribe("headrace_log"), self._due
        )

    def _end(self, relay_id: int) -> None:
        """Ends a relay as soon as its delivery is finished."""
        self._ending[relay_id] = asyncio.create_task(self._stop_relay(self._running.pop(relay_id)))

    async def _stop_relay(self, running: RunningRelay) -> None:
        try:
            await running.stop()
        finally:
            if self._due is not None:
                self._due.remove(running.runner)
            self._listener.unsubscribe(running.subscription)
            del self._ending[running.runnable.relay_id]
            self._written.notify()


def _runnable(relay: dict[str, Any], rest: dict[str, Any]) -> RunnableRelay:
    return RunnableRelay(relay=Relay(**relay), **rest)
