"""The application: the consumers and handlers that a node runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from headrace.actions import ActionHandler, ActionHandlers, PendingAction, Policy, deliver_pending, send_pending
from headrace.consume import Batch, Consumer, Failure, Handler, HandlerGroup, check_session_option
from headrace.core import JSON, Conflict
from headrace.db import AsyncConnection

H = TypeVar("H", bound=Handler)
A = TypeVar("A", bound=ActionHandler)


@dataclass(frozen=True)
class EventTypeRule:
    """A rule without a condition that turns every event of a type into an action, in one topic or (None) in all of them."""

    event_type: str
    topic: str | None

    @property
    def action(self) -> str:
        return f"on:{self.topic}/{self.event_type}" if self.topic else f"on:{self.event_type}"


class Headrace:
    """Collects consumers and handlers. `headrace node run module:app` runs them.

    `session` is what handlers get as their second argument if its annotation does not say it: a class (AsyncSession, Session, a
    connection of psycopg or asyncpg), a sessionmaker with the application's own engine, an asyncpg pool, a mapping from the name
    of each shard to one of these, or 'django'."""

    def __init__(self, *, namespace: str | None = None, session: Any = None) -> None:
        check_session_option(session)
        self.namespace = namespace
        self.session = session
        self.consumers: list[Consumer] = []
        self.action_handlers: dict[str, ActionHandlers] = {}
        """The handlers of each action."""
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
        failure: Failure | None = None,
        concurrency: int = 4,
    ) -> Callable[[H], H]:
        """Makes a function a consumer of a topic, by default under the function's name."""

        def register(handler: H) -> H:
            self.add(
                Consumer(
                    topic=topic,
                    name=name or handler.__name__.replace("_", "-"),
                    handler=handler,
                    batch=batch,
                    ordered_by=ordered_by,
                    start=start,
                    failure=failure or Failure.retry(),
                    concurrency=concurrency,
                    namespace=self.namespace,
                )
            )
            return handler

        return register

    def add(self, consumer: Consumer) -> None:
        """Adds a consumer."""
        if any((known.topic, known.name) == (consumer.topic, consumer.name) for known in self.consumers):
            raise Conflict(f"consumer {consumer.name!r} of topic {consumer.topic!r} exists twice; rename one of them")
        consumer = replace(consumer, session=self.session) if consumer.session is None else consumer
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
    ) -> Callable[[A], A]:
        """Makes a function a handler of an action. All handlers of an action share a transaction, so they need the same options."""
        policy = Policy(
            attempts=attempts,
            backoff_s=backoff_s,
            backoff_max_s=backoff_max_s,
            concurrency=concurrency,
            rate_per_s=rate_per_s,
            ordered=ordered,
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
    ) -> Callable[[A], A]:
        """Makes a function a handler of an event type, in one topic or in all of them, by a rule without a condition."""
        rule = EventTypeRule(event_type, topic)
        if rule not in self.event_type_rules:
            self.event_type_rules.append(rule)
        return self.handler(rule.action, attempts=attempts, concurrency=concurrency, ordered=ordered)

    def handle(self, action: str, function: ActionHandler, policy: Policy) -> None:
        """Adds a handler of an action."""
        known = self.action_handlers.get(action)
        if known is None:
            group = ActionHandlers(action=action, handlers=(function,), policy=policy, session=self.session)
            group.steps  # noqa: B018 - raises for a wrong session
            self.action_handlers[action] = group
            return
        if known.policy != policy:
            raise Conflict(
                f"the handlers of action {action!r} share a transaction, so they need the same options; give them once"
            )
        group = replace(known, handlers=(*known.handlers, function))
        group.steps  # noqa: B018 - raises for a wrong session
        self.action_handlers[action] = group

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
