"""The application: what a node runs, described first and run later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from headrace.actions import ActionHandler, Handling, Pending, Policy, hand_over, send_pending
from headrace.consume import Batch, Consumer, Failure, Handler
from headrace.core import JSON, Conflict
from headrace.db import AsyncConnection

H = TypeVar("H", bound=Handler)
A = TypeVar("A", bound=ActionHandler)


@dataclass(frozen=True)
class On:
    """An event type that is handled directly: a rule without a condition makes it an action. No topic: in all of them."""

    event_type: str
    topic: str | None

    @property
    def action(self) -> str:
        return f"on:{self.topic}/{self.event_type}" if self.topic else f"on:{self.event_type}"


class Headrace:
    """Collects consumers and handlers. `headrace node run module:app` runs them."""

    def __init__(self, *, namespace: str | None = None) -> None:
        self.namespace = namespace
        self._consumers: list[Consumer] = []
        self._handlings: dict[str, Handling] = {}
        self._ons: list[On] = []

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        return tuple(self._consumers)

    @property
    def handlings(self) -> tuple[Handling, ...]:
        """What it does about which action."""
        return tuple(self._handlings.values())

    @property
    def ons(self) -> tuple[On, ...]:
        """The event types it handles directly."""
        return tuple(self._ons)

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
        """Makes a function a consumer of a topic; the consumer's name is the function's unless given."""

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
        """Adds a consumer described elsewhere."""
        if any((known.topic, known.name) == (consumer.topic, consumer.name) for known in self._consumers):
            raise Conflict(f"consumer {consumer.name!r} of topic {consumer.topic!r} is there twice; give one another name")
        self._consumers.append(consumer)

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
        """Makes a function a handler of an action. Several of one action share a transaction, and so give the same options."""
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
        """Makes a function a handler of an event type, in one topic or in all: a rule without a condition."""
        on = On(event_type, topic)
        if on not in self._ons:
            self._ons.append(on)
        return self.handler(on.action, attempts=attempts, concurrency=concurrency, ordered=ordered)

    def handle(self, action: str, function: ActionHandler, policy: Policy) -> None:
        """Adds a handler described elsewhere."""
        known = self._handlings.get(action)
        if known is None:
            self._handlings[action] = Handling(action=action, handlers=(function,), policy=policy)
            return
        if known.policy != policy:
            raise Conflict(
                f"the handlers of action {action!r} share a transaction, so they need the same options; give them once"
            )
        self._handlings[action] = replace(known, handlers=(*known.handlers, function))

    async def send_pending(
        self, conn: AsyncConnection, action: str, payload: JSON = None, *, key: str | None = None, hold_s: int = 10
    ) -> Pending:
        """Sends an action with the caller's transaction, to be handed over by `hand_over` right after its commit."""
        return await send_pending(conn, action, payload, key=key, hold_s=hold_s, namespace=self.namespace)

    async def hand_over(self, conn: AsyncConnection, pending: Pending) -> bool:
        """Handles a pending action here and now, and takes it out of the queue; False: the queue will deliver it."""
        return await hand_over(conn, pending, self._handlings)

    async def deliver(self, conn: AsyncConnection, action: str, payload: JSON = None, *, key: str | None = None) -> bool:
        """Sends an action and hands it over at once; False: that did not work, and the queue will deliver it."""
        async with conn.transaction():
            pending = await self.send_pending(conn, action, payload, key=key)
        return await self.hand_over(conn, pending)
