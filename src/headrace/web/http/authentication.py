"""Authentication: the access token of a request, with the rights it gives.

Owns: the rights of tokens, their rate limits and their readers' places. Promises: a revoked or expired token is rejected after `cache_s` at the
latest; texts that are no token cannot load the database, and their look-ups count against the address that sent them alone; the last
use of a token is recorded once a minute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import psycopg
from psycopg.rows import class_row

from headrace.core import HeadraceError, TokenBucket, TokenBuckets, map_database_errors
from headrace.web.http.access_tokens import Right, token_digest
from headrace.web.http.databases import NOBODY, Database, GatheredLookUps, LookupCache
from headrace.web.http.request import Problem, too_many, unavailable
from headrace.web.http.settings import IngestSettings

logger = logging.getLogger(__name__)

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
    digest: bytes = field(repr=False)
    """The SHA-256 of the token."""

    def require(self, right: Right, topic: str) -> None:
        """Raises Problem (403) unless the token gives the right in the topic."""
        if right not in self.rights:
            raise Problem(
                403, f"the access token {self.name} does not give the right {right}; use another one", error="Forbidden"
            )
        if self.topics is not None and not any(fits(topic, pattern) for pattern in self.topics):
            raise Problem(403, f"the access token {self.name} is not for the topic {topic!r}; use another one", error="Forbidden")

    def require_type(self, type: str) -> None:
        """Raises Problem (403) unless the token is for the event type."""
        if self.event_types is not None and not any(fits(type, pattern) for pattern in self.event_types):
            raise Problem(
                403, f"the access token {self.name} is not for events of type {type!r}; use another one", error="Forbidden"
            )


def fits(name: str, pattern: str) -> bool:
    """Does a name fit a pattern: the name itself, or a beginning that ends in *?"""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


class Authenticator:
    """Knows the tokens of recent requests."""

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings
        self.unknown = TokenBuckets()
        self._tokens: LookupCache[TokenRights] = LookupCache(settings.cache_s, self.unknown)
        self._gathered: dict[Database, GatheredLookUps[TokenRights]] = {}
        self._buckets = TokenBuckets()
        self._readers: Counter[tuple[str, int]] = Counter()
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
            return (await _find_tokens(database, [digest])).get(digest)

        gathered = self._gathered.get(database)
        if gathered is None:
            gathered = self._gathered[database] = GatheredLookUps(partial(_find_tokens, database))
        token = await self._tokens.get(
            (database.target.name, digest), look_up, address=address, gathered=partial(gathered.get, digest)
        )
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
        limit = self._buckets.for_client(client, rate_per_s)
        if wait_s := limit.wait_s():
            raise too_many(
                f"more than {rate_per_s:g} events per second came; nothing was published, try again in {wait_s:.1f} s", wait_s
            )
        return limit

    @contextmanager
    def reader_slot(self, token: TokenRights) -> Iterator[None]:
        """Holds a slot for a long poll or an event stream. Raises Problem: 429 if the token has too many open, 503 if all have."""
        holder, limit = (token.namespace, token.token_id), self._settings.readers_per_token_max
        if self._readers[holder] >= limit:
            raise too_many(
                f"the access token {token.name} has {limit} long polls and event streams open, which is the limit; close one and try "
                "again, or raise readers_per_token_max of the server",
                1,
            )
        # The last tenth of all slots is for namespaces that have less than a tenth.
        slots, total = self._settings.readers_max, self._readers.total()
        own = sum(count for (namespace, _), count in self._readers.items() if namespace == token.namespace)
        if total >= slots or (total >= slots - slots // 10 and own >= slots // 10):
            raise unavailable(f"{total} readers wait already; try again, or raise readers_max")
        self._readers[holder] += 1
        try:
            yield
        finally:
            self._readers[holder] -= 1
            if not self._readers[holder]:
                del self._readers[holder]

    async def record_use(self) -> None:
        """Records the last use of the tokens that were used since the last time."""
        used, self._used = self._used, {}
        for database, token_ids in used.items():
            try:
                async with database.connection(NOBODY) as conn:
                    await conn.execute("select headrace.touch_access_tokens(%s::bigint[])", (sorted(token_ids),))
            except (HeadraceError, psycopg.Error, Problem) as error:
                # Only a time in a list is older than it could be.
                logger.warning("the last use of %d access tokens was not recorded: %s", len(token_ids), error)


async def _find_tokens(database: Database, digests: Sequence[bytes]) -> dict[bytes, TokenRights]:
    async with database.connection(NOBODY) as conn:
        with map_database_errors():
            cursor = await conn.cursor(row_factory=class_row(TokenRights)).execute(
                """select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.expires_at, t.revoked_at,
                       d.digest
                   from unnest(%s::bytea[]) d (digest) cross join lateral headrace.find_access_token(d.digest) t""",
                (digests,),
            )
            return {token.digest: token for token in await cursor.fetchall()}


def _unauthorized(detail: str) -> Problem:
    return Problem(401, detail, error="InvalidAccessToken", headers={"www-authenticate": 'Bearer realm="headrace"'})
