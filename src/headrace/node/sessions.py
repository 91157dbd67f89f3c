"""Sessions of handlers on one database: which sources of transactions the application's handlers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.consume import HandlerGroup
from headrace.db import Pool, Target
from headrace.drivers import Sources, session_kind

if TYPE_CHECKING:
    from headrace.node.app import Headrace

__all__ = ["HandlerSessions", "session_kind"]


class HandlerSessions:
    """The sources of transactions for the handlers of an application."""

    def __init__(self, app: Headrace, target: Target, *, consumers_pool: Pool, actions_pool: Pool) -> None:
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
