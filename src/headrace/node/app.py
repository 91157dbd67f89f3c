"""The application: the consumers and handlers that a node runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Literal, ParamSpec, TypeVar

from headrace.actions import (
    ActionHandler,
    ActionHandlers,
    AfterCommit,
    PendingAction,
    Policy,
    deliver_pending,
    prepare_handlers,
    send_pending,
)
from headrace.consume import (
    Batch,
    Consumer,
    Failure,
    Handler,
    HandlerGroup,
    HandlerOptions,
    Numbers,
    prepare_consumer,
)
from headrace.core import JSON, Address, Conflict
from headrace.db import RELAY_CONNECTIONS, AsyncConnection, LoopFailure, Target
from headrace.drivers import check_session_option
from headrace.node.action_workers import WorkerSettings
from headrace.node.application import EventTypeRule
from headrace.node.databases import GRACE_S
from headrace.node.endpoints import HttpSettings
from headrace.node.registry import Identity
from headrace.node.running import RunningNode, run_node
from headrace.web.http import IngestSettings

START_S = 10.0

H = TypeVar("H", bound=Handler)
A = TypeVar("A", bound=ActionHandler)
P = ParamSpec("P")
R = TypeVar("R")


class Headrace:
    """Collects consumers and handlers. `headrace node run module:app` runs them.

    `session` is what handlers get as their second argument if its annotation does not say it: a class (AsyncSession, Session, a
    connection of psycopg or asyncpg), a sessionmaker with the application's own engine, an asyncpg pool, a mapping from the name
    of each shard to one of these, or 'django'. `numbers` is what JSON numbers with a fraction or exponent become in payloads."""

    def __init__(self, *, namespace: str | None = None, session: Any = None, numbers: Numbers = "float") -> None:
        check_session_option(session)
        self.namespace = namespace
        self.session = session
        self.numbers = numbers
        self.consumers: list[Consumer] = []
        self.action_handlers: dict[str, ActionHandlers] = {}
        """The handlers of each action."""
        self._functions: dict[str, list[ActionHandler]] = {}
        self.event_type_rules: list[EventTypeRule] = []
        """The rules for event types that the application handles directly."""

    def consumer(
        self,
        topic: str,
        *,
        name: str | None = None,
        batch: Batch | None = None,
        ordered_by: Literal["partition", "topic"] = "partition",
        start: Literal["earliest", "latest"] = "earliest",
        where: str | None = None,
        failure: Failure | None = None,
        concurrency: int = 4,
        batch_size: int | None = None,
        timeout_s: float | None = None,
        latency_ms: int = 10,
        numbers: Numbers | None = None,
        bury_invalid: bool = False,
    ) -> Callable[[H], H]:
        """Makes a function a consumer of a topic, by default under the function's name. With `where` it gets only the events for which
        a condition is true; raises ConditionError if that is not one. `latency_ms`: for how long its events may wait for company, from
        commit to handler; 0 handles each at once, for more CPU."""
        options = HandlerOptions(timeout_s=timeout_s, numbers=numbers or self.numbers, bury_invalid=bury_invalid)

        def register(handler: H) -> H:
            self.add(
                Consumer(
                    topic=topic,
                    name=name or getattr(handler, "__name__", type(handler).__name__).replace("_", "-"),
                    handler=handler,
                    batch=batch,
                    batch_size=batch_size,
                    ordered_by=ordered_by,
                    start=start,
                    where=where,
                    failure=failure or Failure.retry(),
                    concurrency=concurrency,
                    namespace=self.namespace,
                    options=options,
                    latency_ms=latency_ms,
                )
            )
            return handler

        return register

    def add(self, consumer: Consumer) -> None:
        """Adds a consumer; raises InvalidHandler if its handler has the wrong form."""
        if any((known.topic, known.name) == (consumer.topic, consumer.name) for known in self.consumers):
            raise Conflict(f"consumer {consumer.name!r} of topic {consumer.topic!r} exists twice; rename one of them")
        consumer = prepare_consumer(replace(consumer, session=self.session) if consumer.session is None else consumer)
        HandlerGroup(handlers=(consumer.handler,), session=consumer.session).steps  # noqa: B018 - raises for a wrong session
        self.consumers.append(consumer)

    def handler(
        self,
        action: str,
        *,
        attempts: int = 5,
        backoff_s: float = 1,
        backoff_max_s: float = 300,
        concurrency: int | None = None,
        rate_per_s: float | None = None,
        ordered: bool = False,
        batch_size: int | None = None,
        timeout_s: float | None = None,
        numbers: Numbers | None = None,
        bury_invalid: bool = False,
    ) -> Callable[[A], A]:
        """Makes a function a handler of an action. All handlers of an action share a transaction, so they need the same options."""
        policy = Policy(
            attempts=attempts,
            backoff_s=backoff_s,
            backoff_max_s=backoff_max_s,
            concurrency=concurrency,
            rate_per_s=rate_per_s,
            ordered=ordered,
            batch_size=batch_size,
            timeout_s=timeout_s,
            numbers=numbers or self.numbers,
            bury_invalid=bury_invalid,
        )

        def register(function: A) -> A:
            self.handle(action, function, policy)
            return function

        return register

    def on(
        self,
        event_type: str,
        *,
        topic: str | None = None,
        attempts: int = 5,
        concurrency: int | None = None,
        ordered: bool = False,
        batch_size: int | None = None,
        timeout_s: float | None = None,
        numbers: Numbers | None = None,
        bury_invalid: bool = False,
    ) -> Callable[[A], A]:
        """Makes a function a handler of an event type, in one topic or in all of them, by a rule without a condition."""
        rule = EventTypeRule(event_type, topic)
        if rule not in self.event_type_rules:
            self.event_type_rules.append(rule)
        return self.handler(
            rule.action,
            attempts=attempts,
            concurrency=concurrency,
            ordered=ordered,
            batch_size=batch_size,
            timeout_s=timeout_s,
            numbers=numbers,
            bury_invalid=bury_invalid,
        )

    def after_commit(
        self,
        *,
        name: str | None = None,
        attempts: int = 10,
        backoff_s: float = 1,
        backoff_max_s: float = 300,
        concurrency: int | None = None,
        rate_per_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Callable[[Callable[P, R]], AfterCommit[P, R]]:
        """Makes a function one that handlers call after their commit: `await send_mail.after_commit(tx, to=...)` records the call in
        the handler's transaction, and a node makes it afterwards, at least once, each in a transaction of its own."""
        policy = Policy(
            attempts=attempts,
            backoff_s=backoff_s,
            backoff_max_s=backoff_max_s,
            concurrency=concurrency,
            rate_per_s=rate_per_s,
            batch_size=1,
            timeout_s=timeout_s,
        )

        def register(function: Callable[P, R]) -> AfterCommit[P, R]:
            action = f"after-commit:{name or getattr(function, '__name__', 'call')}"
            if action in self.action_handlers:
                raise Conflict(f"{action} exists twice; give one of the functions another name=")
            call = AfterCommit(function, action=action, namespace=self.namespace)
            # Open no session: it needs none.
            self._handle(action, call.handler(), policy, None)
            return call

        return register

    def handle(self, action: str, function: ActionHandler, policy: Policy) -> None:
        """Adds a handler of an action; raises InvalidHandler if it has the wrong form."""
        self._handle(action, function, policy, self.session)

    def _handle(self, action: str, function: ActionHandler, policy: Policy, session: Any) -> None:
        known = self.action_handlers.get(action)
        if known is not None and known.policy != policy:
            raise Conflict(
                f"the handlers of action {action!r} share a transaction, so they need the same options; give them once"
            )
        functions = [*self._functions.get(action, ()), function]
        self.action_handlers[action] = prepare_handlers(action, functions, policy, session=session)
        self._functions[action] = functions

    def running(
        self,
        dsn: str | Sequence[Target] | None = None,
        *,
        sequencer: bool = True,
        start_timeout_s: float = START_S,
        grace_s: float = GRACE_S,
        on_failure: Callable[[LoopFailure], None] | None = None,
        identity: Identity | None = None,
        work: WorkerSettings | None = None,
        http: str | HttpSettings | None = None,
        ingest: str | IngestSettings | None = None,
        relay_connections: int = RELAY_CONNECTIONS,
    ) -> AbstractAsyncContextManager[RunningNode]:
        """Runs a node inside this process, on its event loop, while the block runs: `async with app.running() as node:`.

        `dsn` is the address of the database, or of several shards; without it HEADRACE_DSN or DATABASE_URL. Raises if the node
        cannot start: UnknownTopic, NotMigrated, TransactionPooler at once, DatabaseUnavailable if a database does not answer
        within `start_timeout_s`. `on_failure` is called once for each new error of a loop; the loop goes on trying. At the end
        of the block running handlers have `grace_s` to finish; after that their transactions are rolled back. `http` is an address
        such as '127.0.0.1:9464' where the node serves /metrics, /healthz and /readyz, `ingest` one for HTTP in. Relays may
        hold `relay_connections` beside the connections of the node; with 0 it runs no relays."""
        return run_node(
            self,
            dsn,
            sequencer=sequencer,
            start_timeout_s=start_timeout_s,
            grace_s=grace_s,
            on_failure=on_failure,
            identity=identity,
            work=work,
            http=HttpSettings.parse(http) if isinstance(http, str) else http,
            ingest=IngestSettings(address=Address.parse(ingest)) if isinstance(ingest, str) else ingest,
            relay_connections=relay_connections,
        )

    async def send_pending(
        self, conn: AsyncConnection, action: str, payload: JSON = None, *, key: str | None = None, hold_s: int = 10
    ) -> PendingAction:
        """Sends an action in the caller's transaction; call `deliver_pending` right after its commit."""
        return await send_pending(conn, action, payload, key=key, hold_s=hold_s, namespace=self.namespace)

    async def deliver_pending(self, conn: AsyncConnection, pending: PendingAction) -> bool:
        """Handles a pending action in this process and removes it from the queue; False: the queue will deliver it."""
        return await deliver_pending(conn, pending, self.action_handlers)

    async def deliver(self, conn: AsyncConnection, action: str, payload: JSON = None, *, key: str | None = None) -> bool:
        """Sends an action and handles it in this process at once; False: the queue will deliver it."""
        async with conn.transaction():
            pending = await self.send_pending(conn, action, payload, key=key)
        return await self.deliver_pending(conn, pending)
