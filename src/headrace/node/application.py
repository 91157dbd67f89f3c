"""What the loops of a node know of their application, and where the transactions of its handlers come from on one database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.actions import ActionHandlers
from headrace.consume import Consumer, HandlerGroup
from headrace.db import Pool, Target
from headrace.drivers import Sources


@dataclass(frozen=True)
class EventTypeRule:
    """A rule without a condition that turns every event of a type into an action, in one topic or (None) in all of them."""

    event_type: str
    topic: str | None

    @property
    def action(self) -> str:
        return f"on:{self.topic}/{self.event_type}" if self.topic else f"on:{self.event_type}"


class Application(Protocol):
    """The consumers and handlers that a node runs."""

    @property
    def namespace(self) -> str | None: ...

    @property
    def consumers(self) -> Sequence[Consumer]: ...

    @property
    def action_handlers(self) -> Mapping[str, ActionHandlers]: ...

    @property
    def event_type_rules(self) -> Sequence[EventTypeRule]: ...


class HandlerSessions:
    """The sources of transactions for the handlers of an application."""

    def __init__(self, app: Application, target: Target, *, consumers_pool: Pool, actions_pool: Pool) -> None:
        self.consumer_sources, self.action_sources = Sources(consumers_pool, target), Sources(actions_pool, target)
        consumers = [HandlerGroup(handlers=(consumer.handler,), session=consumer.session) for consumer in app.consumers]
        self._groups: list[HandlerGroup] = [*consumers, *app.action_handlers.values()]

    @property
    def own_sources(self) -> list[Any]:
        """The engines and pools that handlers of the application use in place of the node's own connections."""
        return list({id(group.source): group.source for group in self._groups if group.source is not None}.values())

    async def check(self) -> None:
        """Raises Invalid if an engine or pool of the application leads to another database than the node's."""
        await self.consumer_sources.check(self.own_sources)

    async def close(self) -> None:
        await self.consumer_sources.close()
        await self.action_sources.close()
