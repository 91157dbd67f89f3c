"""Router: takes events to the shards they belong to, each shard in a transaction of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from headrace.cli.session import Session
from headrace.core import DatabaseUnavailable, Event, ShardDown
from headrace.db import Connection, Shards, connect
from headrace.outbox import publish_many


class Router:
    """Connections to all shards that are up. A key's events go to its shard or nowhere; others to any that is up."""

    def __init__(self, session: Session, stack: ExitStack) -> None:
        self._namespace = session.namespace
        self._shards = Shards(session.targets)
        self._conns: dict[str, Connection] = {}
        self._down: dict[str, str] = {}
        for target in session.targets:
            try:
                self._conns[target.name] = stack.enter_context(connect(target))
            except DatabaseUnavailable as error:
                self._down[target.name] = str(error)
        if not self._conns:
            raise DatabaseUnavailable("; ".join(self._down.values()))
        self._up = Shards([target for target in session.targets if target.name in self._conns])

    def publish(self, events: Sequence[Event]) -> list[str]:
        """Publishes events and returns the name of each one's shard. A key whose shard is down raises ShardDown."""
        names = [self._shard_of(event) for event in events]
        by_shard: dict[str, list[Event]] = defaultdict(list)
        for name, event in zip(names, events, strict=True):
            by_shard[name].append(event)
        for name, some in by_shard.items():
            publish_many(self._conns[name], some, namespace=self._namespace)
        return names

    def _shard_of(self, event: Event) -> str:
        # Without a key the id decides, so that publishing it again finds the first one.
        if event.key is None:
            return self._up.shard_of(str(event.id)).name
        name = self._shards.shard_of(event.key).name
        if name in self._down:
            raise ShardDown(f"{self._down[name]}; key {event.key!r} belongs there, try again when it is back")
        return name

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is published inside commits at the end; nothing when an error is raised inside."""
        with ExitStack() as stack:
            for conn in self._conns.values():
                stack.enter_context(conn.transaction())
            yield


@contextmanager
def router(session: Session) -> Iterator[Router]:
    """A router for one command."""
    with ExitStack() as stack:
        yield Router(session, stack)
