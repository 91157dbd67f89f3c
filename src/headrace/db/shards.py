"""Shards: several databases with the same topics.

Owns: which shard a key belongs to. Promises: a key always goes to the same shard while the set of shards is the same, whatever
their order; adding a shard moves only the keys that now belong to it, about one in n; events without a key spread, and pass
over a shard that is down. A key's events on one shard are never spread to another because a shard is down: that would give up
their order silently, so it is an error instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import count

from headrace.core import DatabaseUnavailable, Invalid, ShardDown
from headrace.db.connections import Connection, Target, connect


class Shards:
    """The shards of a deployment, by name."""

    def __init__(self, targets: Sequence[Target]) -> None:
        if not targets:
            raise Invalid("no shard was given; name at least one database")
        self.targets = tuple(sorted(targets, key=lambda target: target.name))
        self._turn = count()

    def shard_of(self, key: str) -> Target:
        """The shard a key belongs to: the one whose name gives the highest hash together with the key."""
        return max(self.targets, key=lambda target: sha256(f"{target.name}\0{key}".encode()).digest())

    @contextmanager
    def connect(self, key: str | None) -> Iterator[Connection]:
        """A connection to the shard of a key; without a key to any that is up, in turn."""
        with ExitStack() as stack:
            yield self._open([self.shard_of(key)] if key is not None else self._in_turn(), stack)

    def _open(self, candidates: Sequence[Target], stack: ExitStack) -> Connection:
        down: list[str] = []
        for target in candidates:
            try:
                return stack.enter_context(connect(target))
            except DatabaseUnavailable as error:
                down.append(str(error))
        raise ShardDown("; ".join(down) + "; the other shards go on, try again when it is back")

    def _in_turn(self) -> list[Target]:
        first = next(self._turn) % len(self.targets)
        return [*self.targets[first:], *self.targets[:first]]

    def moved_keys(self, keys: Sequence[str], after: Shards) -> list[str]:
        """Which of these keys would live elsewhere with another set of shards."""
        return [key for key in keys if self.shard_of(key).name != after.shard_of(key).name]
