"""The loops of a node on one database: sequencer, schedules, rules, correlators, consumers, workers of actions, relays and maintenance.

Owns: their connections, their start and their end. Promises: an error of one loop stops no other; what handlers had in hand when they did
not end in time is given back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import LiteralString

from headrace.actions import build_worker_pools
from headrace.consume import ConditionCompiler, ConsumerRunner, DuePoll
from headrace.correlators import CorrelatorEngine
from headrace.db import (
    RELAY_CONNECTIONS,
    WAIT_S,
    Listener,
    Loop,
    PoolShare,
    StopSignal,
    Target,
    cancel_tasks,
    check_node_database,
    create_loop_pool,
    create_pool,
    divide_connections,
    error_line,
    fetch_value_async,
    is_transient,
    run_to_end,
)
from headrace.log.topics import Sequencer
from headrace.node.action_workers import ActionWorkers, WorkerSettings
from headrace.node.application import Application, HandlerSessions
from headrace.node.registry import Activity, Identity, Registry
from headrace.relays import RelayEngine
from headrace.rules import RuleEngine
from headrace.schedules import Ticker

logger = logging.getLogger(__name__)

GRACE_S = 30.0
MAINTENANCE_S = 60.0
MAINTENANCE: Mapping[str, LiteralString] = {
    "time partitions": "select count(*) from headrace.maintain_log()",
    "results": "select headrace_internal.trim_results()",
    "correlator keys": "select headrace_internal.forget_instances()",
    "lineage": "select headrace_internal.forget_lineage()",
    "idempotency keys": "select headrace_internal.trim_idempotency_keys()",
}
"""The steps of the maintenance; one that fails does not keep the others from running."""
DEREGISTER_S = 2.0
CANCEL_S = 2.0
"""How long a cancelled handler may take to end after the grace time; then the node ends without it."""


class NodePools:
    """The connection pools of a node on one database: `loops` for its own statements, `handlers` for the user's code, and `relays`.

    `long_steps`, `consumers` and `actions` are shares of them."""

    def __init__(
        self,
        app: Application,
        target: Target,
        *,
        node: str,
        workers: int,
        sequencer: bool,
        connections: int,
        relay_connections: int,
    ) -> None:
        # Each worker holds one connection while it handles, with the database's own settings: it runs the user's code.
        consumer_workers = sum(consumer.concurrency for consumer in app.consumers)
        budget = divide_connections(connections, handlers=consumer_workers + workers, sequencer=sequencer)
        self.connections = budget.total
        settings = {"headrace.node": node}
        self.handlers = create_pool(target, size=budget.handlers, settings=settings)
        self.loops = create_loop_pool(target, size=budget.loops, settings=settings)
        self.relays = create_loop_pool(target, size=max(relay_connections, 1), settings=settings)
        self.has_relays = relay_connections > 0
        self.long_steps = PoolShare(self.loops, budget.share_of_long_steps(), name="a loop")
        # One is left for the others: slow handlers of actions stop no consumer, and the other way round.
        share = max(budget.handlers - 1, 1) if consumer_workers and workers else budget.handlers
        self.consumers = PoolShare(self.handlers, share, name="a consumer", wait_s=WAIT_S)
        self.actions = PoolShare(self.handlers, share, name="a worker of actions", wait_s=WAIT_S)

    async def open(self, stack: AsyncExitStack) -> None:
        """Opens the pools, and has the stack close them. The pool of relays is opened with the first relay."""
        for pool in (self.loops, self.handlers):
            stack.push_async_callback(pool.close)
            await pool.open()
        stack.push_async_callback(self.relays.close)


class DatabaseLoops:
    """The loops of a node on one database. Sequencer, ticker, rules and correlators run only with `sequencer`."""

    def __init__(
        self,
        app: Application,
        target: Target,
        stop: StopSignal,
        *,
        sequencer: bool,
        identity: Identity,
        work: WorkerSettings,
        connections: int,
        relay_connections: int = RELAY_CONNECTIONS,
    ) -> None:
        self.target = target
        self.started = asyncio.Event()
        self.start_error: str | None = None
        """The last error of the start, while it is retried."""
        self.is_overdue = False
        """The grace time has passed: what handlers had is no failure of theirs. Whatever else cancels this node, one of them may have
        done it."""
        self._stop = stop
        self._tasks: list[asyncio.Task[None]] = []
        self._runs_sequencer = sequencer
        self._listener = listener = Listener(target)
        worker_pools = build_worker_pools(app.action_handlers.values(), workers=work.workers)
        self._pools = pools = NodePools(
            app,
            target,
            node=identity.name,
            workers=sum(group.workers for group in worker_pools),
            sequencer=sequencer,
            connections=connections,
            relay_connections=relay_connections,
        )
        self.loop_pool, pool, subscribe = pools.loops, pools.long_steps, self._listener.subscribe
        self.ticker = Ticker(pool, subscribe("headrace_schedule"), stop, target)
        self.rules = RuleEngine(pool, subscribe("headrace_rule"), subscribe("headrace_log"), stop)
        self.correlators = CorrelatorEngine(pool, subscribe("headrace_rule"), subscribe("headrace_log"), stop)
        self._sessions = sessions = HandlerSessions(app, target, consumers_pool=pools.consumers, actions_pool=pools.actions)
        self._due = DuePoll(self.loop_pool, subscribe("headrace_log"), stop)
        self._conditions = ConditionCompiler(pool, subscribe("headrace_rule"), stop)
        sources, due = sessions.consumer_sources, self._due
        self.consumers = [
            ConsumerRunner(consumer, pools.consumers, subscribe("headrace_log"), stop, sources=sources, due=due)
            for consumer in app.consumers
        ]
        self.sequencer = Sequencer(self.loop_pool, listener, stop, readers=self.consumers, engines=(self.rules, self.correlators))
        self.actions = ActionWorkers(
            worker_pools,
            target,
            pools.actions,
            self.loop_pool,
            subscribe,
            stop,
            namespace=app.namespace,
            node_id=identity.node_id,
            settings=work,
            sources=sessions.action_sources,
        )
        self.relays = self._create_relays(app.namespace)
        activity = Activity(lambda: [*self.consumers, *self.relays.runners], self.actions.workers)
        self._maintenance = {name: Loop(f"maintenance of {target}: {name}", pool=pool) for name in ("epoch", *MAINTENANCE)}
        self._registry = Registry(
            app,
            identity,
            self.loop_pool,
            sequencer=sequencer,
            connections=pools.connections,
            report=activity.report,
            relays=lambda: self.relays.consumers,
        )

    def _create_relays(self, namespace: str | None) -> RelayEngine:
        async def register() -> None:
            await self._registry.register_consumers()

        written = self._listener.subscribe("headrace_relay")
        return RelayEngine(
            self.loop_pool,
            self._pools.relays,
            written,
            self._stop,
            namespace=namespace,
            listener=self._listener,
            due=self._due,
            on_change=register,
        )

    def ended_loops(self) -> list[str]:
        """The loops that have ended although nobody stopped them; there should be none."""
        return [] if self._stop.is_set() else [task.get_name() for task in self._tasks if task.done()]

    async def run(self) -> None:
        # Before the pools: they set settings of the session, which a pooler in transaction mode would give to other clients.
        await self._first_of(f"start on {self.target}", partial(check_node_database, self.target))
        # A stack: a step of the clean-up that fails must not keep the others from running.
        stack = AsyncExitStack()
        try:
            await self._pools.open(stack)
            stack.push_async_callback(self._sessions.close)
            # Do this after a rejected start, too: the node itself may be registered already, and its actions would wait for it.
            stack.push_async_callback(self._deregister)
            stack.push_async_callback(self._release_work)
            await self._first_of(f"registration with {self.target}", self._register)
            self.started.set()
            await self._run_loops()
        finally:
            await run_to_end(stack.aclose())

    async def _first_of(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Runs a step of the start. If the first attempt is rejected, the node ends: the user must see an unknown topic or a missing
        right at once. A database that was down at the start may be wrong later without harm to the others."""

        async def attempt() -> None:
            try:
                await step()
            except Exception as error:
                self.start_error = error_line(error)
                raise

        try:
            await attempt()
        except Exception as error:
            if not is_transient(error):
                raise
            await Loop(name, self._stop, pool=self.loop_pool).retry(attempt)

    async def _record_epoch(self) -> None:
        before = await fetch_value_async(self.loop_pool, "select headrace_internal.record_epoch()")
        if before:
            logger.warning(
                "%s was failed over or restored: the epoch of its logs was %s; events that were acknowledged last on the old server "
                "may be lost, and handlers may repeat effects outside of the database", self.target, before,
            )  # fmt: skip

    async def _register(self) -> None:
        await self._sessions.check()
        await self._registry.register()
        for consumer in self.consumers:
            await consumer.register()

    async def _run_loops(self) -> None:
        background = {"listener": self._listener.run, "heartbeat": self._registry.loop.run}
        loops = {"due consumers": self._due.loop.run, "actions": self.actions.run}
        if self._pools.has_relays:
            loops["relays"] = self.relays.run
        if self._runs_sequencer:
            background["maintenance"] = Loop(f"maintenance of {self.target}", step=self._maintain).run
            loops |= {
                "sequencer": self.sequencer.loop.run,
                "schedules": self.ticker.loop.run,
                "rules": self.rules.run,
                "correlators": self.correlators.run,
                "conditions": self._conditions.loop.run,
            }
        background_tasks = self._start(background)
        tasks = [asyncio.create_task(consumer.run(), name=consumer.name) for consumer in self.consumers] + self._start(loops)
        self._tasks = [*background_tasks, *tasks]
        try:
            await asyncio.wait(tasks)
        finally:
            await cancel_tasks(*self._tasks, within_s=CANCEL_S)
            for task in (task for task in tasks if not task.done()):
                logger.error("%s: a handler ignores that the node ends; the node ends without it", task.get_name())

    def _start(self, loops: Mapping[str, Callable[[], Coroutine[None, None, None]]]) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(run(), name=f"{name} of {self.target}") for name, run in loops.items()]

    async def _deregister(self) -> None:
        """Tells the database that the node stops. If it is unreachable, the node counts as lost after 90 s."""
        try:
            async with asyncio.timeout(DEREGISTER_S):
                await self._registry.deregister()
        except Exception as error:  # noqa: BLE001 - the node stops in any case
            logger.warning("%s could not record that this node stops: %s", self.target, error)

    async def _release_work(self) -> None:
        """Returns actions to the queue whose handlers did not end in time, which would wait for the end of their lease, and says of
        the claims of consumers that their sessions were not lost."""
        try:
            async with asyncio.timeout(DEREGISTER_S):
                await self.actions.release()
                for consumer in self.consumers if self.is_overdue else ():
                    await consumer.release()
        except Exception as error:  # noqa: BLE001 - the node stops in any case
            logger.warning("%s could not give back the work of handlers that did not end: %s", self.target, error)

    async def _maintain(self) -> float:
        await self._maintenance["epoch"].attempt(self._record_epoch)
        for name, statement in MAINTENANCE.items():
            await self._maintenance[name].attempt(partial(fetch_value_async, self._pools.long_steps, statement))
        return MAINTENANCE_S


def start_failures(databases: Sequence[DatabaseLoops]) -> list[str]:
    """What keeps a node from starting now, one line for each database that has not started."""
    return [
        f"{database.target}: {database.start_error or 'no answer yet'}" for database in databases if not database.started.is_set()
    ]
