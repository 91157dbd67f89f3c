"""Access tokens: created, listed and revoked by administrators of a namespace.

A token is 256 random bits, so that its SHA-256 is enough: a slow password hash protects texts that people make up, which can be
guessed; these cannot."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias

from headrace.db import Connection, fetch_rows, fetch_value, query

Right: TypeAlias = Literal["publish", "read"]
"""What the holder of a token may do."""
PREFIX = "hrt_"
"""Tells scanners of leaked secrets, and people, what the text is."""


@dataclass(frozen=True)
class AccessToken:
    """An access token as administrators see it; the token itself is not stored."""

    token_id: int
    namespace: str
    name: str
    rights: Sequence[Right]
    topics: Sequence[str] | None
    """Names, or beginnings of names that end in *; None: all."""
    event_types: Sequence[str] | None
    rate_per_s: float | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    """Recorded once a minute at most."""
    revoked_at: datetime | None


@dataclass(frozen=True)
class NewAccessToken:
    """A token that was just made, and its SHA-256. It is shown once and cannot be read again."""

    token: str = field(repr=False)

    @classmethod
    def generate(cls) -> NewAccessToken:
        return cls(PREFIX + secrets.token_urlsafe(32))

    @property
    def digest(self) -> bytes:
        return token_digest(self.token)


def token_digest(token: str) -> bytes:
    """What is stored of a token."""
    return sha256(token.encode()).digest()


def create_access_token(
    conn: Connection,
    name: str,
    rights: Sequence[Right],
    *,
    topics: Sequence[str] | None = None,
    event_types: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    rate_per_s: float | None = None,
    token: NewAccessToken | None = None,
    namespace: str | None = None,
) -> NewAccessToken:
    """Creates an access token. Give the same `token` on every shard. Raises AccessTokenExists or InvalidAccessToken."""
    token = token or NewAccessToken.generate()
    parameters = {
        "name": name,
        "rights": list(rights),
        "topics": topics and list(topics),
        "event_types": event_types and list(event_types),
        "expires_at": expires_at,
        "rate_per_s": rate_per_s,
        # Only the digest travels: statements may be logged.
        "digest": token.digest,
        "namespace": namespace,
    }
    fetch_value(
        conn,
        """select headrace.create_access_token(p_name => %(name)s, p_rights => %(rights)s, p_topics => %(topics)s,
            p_event_types => %(event_types)s, p_expires_at => %(expires_at)s, p_rate_per_s => %(rate_per_s)s,
            p_digest => %(digest)s, p_namespace => %(namespace)s)""",
        parameters,
    )
    return token


def revoke_access_token(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Revokes an access token: servers reject it within seconds. Raises UnknownAccessToken."""
    fetch_value(conn, "select headrace.revoke_access_token(%s, %s)", (name, namespace))


def list_access_tokens(conn: Connection, *, namespace: str | None = None) -> list[AccessToken]:
    """The access tokens of a namespace, also revoked ones, which come last."""
    return fetch_rows(conn, AccessToken, query("web/http/access_tokens"), {"namespace": namespace})
