"""Router: publishes events to their shards, in one transaction per shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from headrace.cli.session import Session
from headrace.core import DatabaseUnavailable, Event, ShardUnavailable
from headrace.db import Connection, Shards, connect
from headrace.log.outbox import publish_many


class Router(ExitStack):
    """Connections to all reachable shards. An event with a key goes to the shard of its key only; others to any shard."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._namespace = session.namespace
        self._shards = Shards(session.targets)
        self._conns: dict[str, Connection] = {}
        self._unreachable: dict[str, str] = {}
        for target in session.targets:
            try:
                self._conns[target.name] = self.enter_context(connect(target))
            except DatabaseUnavailable as error:
                self._unreachable[target.name] = str(error)
        if not self._conns:
            raise DatabaseUnavailable("; ".join(self._unreachable.values()))
        self._reachable = Shards([target for target in session.targets if target.name in self._conns])

    def publish(self, events: Sequence[Event]) -> list[str]:
        """Publishes events and returns the shard of each. Raises ShardUnavailable if the shard of a key is unreachable."""
        names = [self._shard_of(event) for event in events]
        for shard in dict.fromkeys(names):
            own = [event for name, event in zip(names, events, strict=True) if name == shard]
            publish_many(self._conns[shard], own, namespace=self._namespace)
        return names

    def _shard_of(self, event: Event) -> str:
        # Without a key the id decides, so that publishing the id again finds the first event.
        if event.key is None:
            return self._reachable.shard_of(str(event.id)).name
        name = self._shards.shard_of(event.key).name
        if name in self._unreachable:
            raise ShardUnavailable(f"{self._unreachable[name]}; key {event.key!r} belongs to this shard, so try again later")
        return name

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end what is published inside; an error rolls it back."""
        with ExitStack() as stack:
            for conn in self._conns.values():
                stack.enter_context(conn.transaction())
            yield
