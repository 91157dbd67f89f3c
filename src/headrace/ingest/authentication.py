"""Authentication: the access token of a request, with the rights it gives.

Owns: the cache of tokens and hooks, and the rate limits. Promises: a revoked or expired token is rejected after `cache_s` at the
latest; texts that are no token cannot load the database, and their look-ups count against the address that sent them alone; the last
use of a token is recorded once a minute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import IPv6Network, ip_address
from typing import Generic, TypeVar

import psycopg
from psycopg.rows import class_row

from headrace.core import HeadraceError, TokenBucket, TokenBuckets, map_database_errors
from headrace.ingest.access_tokens import Right, token_digest
from headrace.ingest.databases import Database
from headrace.ingest.problems import Problem, too_many
from headrace.ingest.settings import IngestSettings

logger = logging.getLogger(__name__)

T, V = TypeVar("T"), TypeVar("V")
UNKNOWN_PER_S = 50.0
"""Looks into the database for tokens and hooks that are not known to exist, per second and address of a client."""
ENTRIES_MAX = 10_000
TOUCH_S = 60.0


@dataclass(frozen=True)
class TokenRights:
    """What the database says about a token."""

    token_id: int
    namespace: str
    name: str
    rights: Sequence[Right]
    topics: Sequence[str] | None
    event_types: Sequence[str] | None
    rate_per_s: float | None
    expires_at: datetime | None
    revoked_at: datetime | None

    def require(self, right: Right, topic: str) -> None:
        """Raises Problem (403) unless the token gives the right in the topic."""
        if right not in self.rights:
            raise Problem(
                403, f"the access token {self.name} does not give the right {right}; use another one", error="Forbidden"
            )
        if self.topics is not None and not any(_fits(topic, pattern) for pattern in self.topics):
            raise Problem(403, f"the access token {self.name} is not for the topic {topic!r}; use another one", error="Forbidden")

    def require_type(self, type: str) -> None:
        """Raises Problem (403) unless the token is for the event type."""
        if self.event_types is not None and not any(_fits(type, pattern) for pattern in self.event_types):
            raise Problem(
                403, f"the access token {self.name} is not for events of type {type!r}; use another one", error="Forbidden"
            )

    @cached_property
    def type_patterns(self) -> tuple[str, ...] | None:
        """The event types as patterns of SQL."""
        return None if self.event_types is None else tuple(map(like_pattern, self.event_types))


def like_pattern(pattern: str) -> str:
    """A name, or a beginning that ends in *, as a pattern of SQL's LIKE."""
    prefix = pattern[:-1] if pattern.endswith("*") else pattern
    escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped + "%" if pattern.endswith("*") else escaped


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


class LookupCache(Generic[T]):
    """Rows by key, kept for a few seconds; concurrent look-ups of a key are one. Rows that are not there are kept, too, and looking for
    them is limited by address. They are kept apart: however many there are, they do not displace what exists."""

    def __init__(self, keep_s: float, unknown: TokenBuckets) -> None:
        """`unknown`: a bucket for each address, which several caches may share."""
        self._keep_s = keep_s
        self._unknown = unknown
        self._known: OrderedDict[object, tuple[float, T]] = OrderedDict()
        self._missing: OrderedDict[object, float] = OrderedDict()
        self._running: dict[object, asyncio.Task[T | None]] = {}

    async def get(self, key: object, look_up: Callable[[], Awaitable[T | None]], *, address: str) -> T | None:
        """The row of a key. Raises Problem (429) if the address asked for too many unknown keys."""
        kept_since = time.monotonic() - self._keep_s
        known = self._known.get(key)
        if known is not None and known[0] > kept_since:
            return known[1]
        if self._missing.get(key, kept_since) > kept_since:
            return None
        task = self._running.get(key)
        if task is None:
            bucket = None if known is not None else self._bucket(address)
            task = self._running[key] = asyncio.create_task(
                self._look_up(key, look_up, bucket), name="look-up of a token or hook"
            )
            task.add_done_callback(lambda _task: self._running.pop(key, None))
        # Shielded: whoever began it may go away, the others want the answer.
        return await asyncio.shield(task)

    def _bucket(self, address: str) -> TokenBucket:
        bucket = self._unknown.of(address, UNKNOWN_PER_S)
        if wait_s := bucket.wait_s():
            raise too_many(
                f"more than {UNKNOWN_PER_S:g} unknown access tokens or hooks per second were asked for from this address; "
                f"try again in {wait_s:.1f} s",
                wait_s,
            )
        bucket.take(1)
        return bucket

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


def client_address(host: str | None) -> str:
    """What counts as one address: all of an IPv6 network of 64 bits, which one client usually has for itself."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or ""
    return str(address) if address.version == 4 else str(IPv6Network((int(address), 64), strict=False))


class Authenticator:
    """Knows the tokens of recent requests."""

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings
        self.unknown = TokenBuckets()
        self._tokens: LookupCache[TokenRights] = LookupCache(settings.cache_s, self.unknown)
        self._buckets = TokenBuckets()
        self._used: dict[Database, set[int]] = {}
        self._touched_at = time.monotonic()
        self._touching: asyncio.Task[None] | None = None

    async def authenticate(self, authorization: str | None, database: Database, *, address: str) -> TokenRights:
        """The token of a request from an address. Raises Problem (401, 429)."""
        scheme, _, text = (authorization or "").partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text:
            raise _unauthorized("the request has no access token; send the header Authorization: Bearer hrt_…")
        if not (text.isascii() and len(text) <= 100):
            raise _unauthorized("this is not an access token; see: headrace token create")
        digest = token_digest(text)

        async def look_up() -> TokenRights | None:
            return await _find_token(database, digest)

        token = await self._tokens.get((database.target.name, digest), look_up, address=address)
        if token is None or token.revoked_at is not None:
            raise _unauthorized("there is no such access token, or it was revoked; ask for a new one: headrace token create")
        if token.expires_at is not None and token.expires_at <= datetime.now(UTC):
            raise _unauthorized(
                f"the access token {token.name} expired at {token.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC; ask for a new one"
            )
        self._used.setdefault(database, set()).add(token.token_id)
        if time.monotonic() - self._touched_at >= TOUCH_S:
            self._touched_at = time.monotonic()
            self._touching = asyncio.create_task(self.record_use(), name="last use of access tokens")
        return token

    def limit(self, token: TokenRights) -> TokenBucket:
        """The rate limit of a token. Raises Problem (429) if it has nothing left."""
        return self.check(("token", token.namespace, token.token_id), token.rate_per_s or self._settings.rate_per_s)

    def check(self, client: object, rate_per_s: float) -> TokenBucket:
        limit = self._buckets.of(client, rate_per_s)
        if wait_s := limit.wait_s():
            raise too_many(
                f"more than {rate_per_s:g} events per second came; nothing was published, try again in {wait_s:.1f} s", wait_s
            )
        return limit

    async def record_use(self) -> None:
        """Records the last use of the tokens that were used since the last time."""
        used, self._used = self._used, {}
        for database, token_ids in used.items():
            try:
                async with database.connection() as conn:
                    await conn.execute("select headrace.touch_access_tokens(%s::bigint[])", (sorted(token_ids),))
            except (HeadraceError, psycopg.Error, Problem) as error:
                # Only a time in a list is older than it could be.
                logger.warning("the last use of %d access tokens was not recorded: %s", len(token_ids), error)


async def _find_token(database: Database, digest: bytes) -> TokenRights | None:
    async with database.connection() as conn:
        with map_database_errors():
            cursor = await conn.cursor(row_factory=class_row(TokenRights)).execute(
                """select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.expires_at, t.revoked_at
                   from headrace.find_access_token(%s) t""",
                (digest,),
            )
            return await cursor.fetchone()


def _unauthorized(detail: str) -> Problem:
    return Problem(401, detail, error="InvalidAccessToken", headers={"www-authenticate": 'Bearer realm="headrace"'})
