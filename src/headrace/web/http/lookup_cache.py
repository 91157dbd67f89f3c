"""Look-ups of tokens, hooks and topics, from a short-lived cache.

Promises: strangers who ask for what is not there neither load the database nor stand in the way of anybody at another address, nor
of what is known to exist."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Generic, TypeVar

from headrace.core import TokenBucket, TokenBuckets
from headrace.web.http.problems import too_many

T = TypeVar("T")
V = TypeVar("V")
UNKNOWN_PER_S = 50.0
"""Looks into the database for tokens and hooks that are not known to exist, per second and address of a client."""
ENTRIES_MAX = 10_000
GATHER_S = 0.25
"""How long look-ups beyond that are gathered, to be one statement."""
GATHERED_MAX = 2_000


def client_address(host: str | None) -> str:
    """What counts as one address: all of an IPv6 network of 64 bits, which one client usually has for itself."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or ""
    if isinstance(address, IPv4Address) or address.ipv4_mapped is not None:
        return str(address)
    return str(IPv6Network((int(address), 64), strict=False))


class GatheredLookUps(Generic[T]):
    """Looks many keys up by one statement every GATHER_S, whoever asks: so they cost little, and may come in any number."""

    def __init__(self, look_up_all: Callable[[Sequence[bytes]], Awaitable[Mapping[bytes, T]]]) -> None:
        self._look_up_all = look_up_all
        self._keys: set[bytes] = set()
        self._next: asyncio.Task[Mapping[bytes, T]] | None = None

    async def get(self, key: bytes) -> T | None:
        if len(self._keys) >= GATHERED_MAX:
            return None
        self._keys.add(key)
        if self._next is None:
            self._next = asyncio.create_task(self._gather(), name="gathered look-ups")
        # Shielded: whoever began it may go away, the others want the answer.
        return (await asyncio.shield(self._next)).get(key)

    async def _gather(self) -> Mapping[bytes, T]:
        await asyncio.sleep(GATHER_S)
        keys, self._keys, self._next = list(self._keys), set(), None
        return await self._look_up_all(keys)


class LookupCache(Generic[T]):
    """Rows by key, kept for a few seconds; concurrent look-ups of a key are one. Rows that are not there are kept, too, and looking for
    them is limited by address. They are kept apart: however many there are, they do not displace what exists."""

    def __init__(self, keep_s: float, unknown: TokenBuckets | None = None) -> None:
        """`unknown`: a bucket for each address, which several caches may share. Without it nothing is limited."""
        self._keep_s = keep_s
        self._unknown = unknown
        self._known: OrderedDict[object, tuple[float, T]] = OrderedDict()
        self._missing: OrderedDict[object, float] = OrderedDict()
        self._running: dict[object, asyncio.Task[T | None]] = {}

    async def get(
        self,
        key: object,
        look_up: Callable[[], Awaitable[T | None]],
        *,
        address: str = "",
        gathered: Callable[[], Awaitable[T | None]] | None = None,
    ) -> T | None:
        """The row of a key. If the address asked for too many unknown keys, it comes by `gathered`, which may take a moment; raises
        Problem (429) if it is not there then, or without `gathered`."""
        kept_since = time.monotonic() - self._keep_s
        known = self._known.get(key)
        if known is not None and known[0] > kept_since:
            return known[1]
        if self._missing.get(key, kept_since) > kept_since:
            return None
        task = self._running.get(key)
        if task is None:
            bucket = self._unknown.of(address, UNKNOWN_PER_S) if known is None and self._unknown is not None else None
            if bucket is not None and (wait_s := bucket.wait_s()):
                return await self._get_gathered(key, gathered, wait_s)
            if bucket is not None:
                bucket.take(1)
            task = self._running[key] = asyncio.create_task(
                self._look_up(key, look_up, bucket), name="look-up of a token or hook"
            )
            task.add_done_callback(partial(self._end, key))
        # Shielded: whoever began it may go away, the others want the answer.
        return await asyncio.shield(task)

    def _end(self, key: object, task: asyncio.Task[T | None]) -> None:
        del self._running[key]
        # Nobody may be left to see the error.
        _ = task.cancelled() or task.exception()

    async def _get_gathered(self, key: object, gathered: Callable[[], Awaitable[T | None]] | None, wait_s: float) -> T:
        row = await gathered() if gathered else None
        if row is None:
            raise too_many(
                f"more than {UNKNOWN_PER_S:g} unknown access tokens or hooks per second were asked for from this address; "
                f"try again in {wait_s:.1f} s",
                wait_s,
            )
        _keep(self._known, key, (time.monotonic(), row))
        return row

    async def _look_up(self, key: object, look_up: Callable[[], Awaitable[T | None]], bucket: TokenBucket | None) -> T | None:
        is_missing = False
        try:
            row = await look_up()
            is_missing = row is None
        finally:
            if bucket is not None and not is_missing:
                # Only what is not there counts: new tokens may come in any number, and a database that is down is not their fault.
                bucket.give_back(1)
        if row is None:
            self._known.pop(key, None)
            _keep(self._missing, key, time.monotonic())
        else:
            _keep(self._known, key, (time.monotonic(), row))
        return row


def _keep(entries: OrderedDict[object, V], key: object, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > ENTRIES_MAX:
        entries.popitem(last=False)
