"""Shards: several databases with the same topics.

Owns: which shard a key belongs to. Promises: a key goes to the same shard as long as the set of shards is the same, in whatever
order they are listed; a new shard takes only its own keys, about one in n; events without a key are spread, and skip a shard that
is unreachable. An event with a key never goes to another shard: that would silently give up its order, so it is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import count

from headrace.core import DatabaseUnavailable, Invalid, ShardUnavailable
from headrace.db.connections import Connection, Target, connect


class Shards:
    """The shards of a deployment, by name."""

    def __init__(self, targets: Sequence[Target]) -> None:
        if not targets:
            raise Invalid("there is no shard; name at least one database")
        self.targets = tuple(sorted(targets, key=lambda target: target.name))
        self._turn = count()

    def shard_of(self, key: str) -> Target:
        """The shard a key belongs to: the one whose name, hashed with the key, gives the highest value."""
        return max(self.targets, key=lambda target: sha256(f"{target.name}\0{key}".encode()).digest())

    @contextmanager
    def connect(self, key: str | None) -> Iterator[Connection]:
        """A connection to the shard of a key; without a key to any reachable shard, in turn."""
        if key is not None:
            candidates: Sequence[Target] = [self.shard_of(key)]
        else:
            first = next(self._turn) % len(self.targets)
            candidates = self.targets[first:] + self.targets[:first]
        with ExitStack() as stack:
            yield _connect_first(candidates, stack)


def _connect_first(candidates: Sequence[Target], stack: ExitStack) -> Connection:
    errors: list[str] = []
    for target in candidates:
        try:
            return stack.enter_context(connect(target))
        except DatabaseUnavailable as error:
            errors.append(str(error))
    raise ShardUnavailable("; ".join(errors) + "; the other shards go on, try again when it is back")
