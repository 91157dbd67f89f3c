"""Settings of the web application: its limits."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core import Address

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class IngestSettings:
    """Limits of HTTP in. All of them hold per process."""

    address: Address | None = None
    """Where a node listens. An application that you mount yourself ignores it."""
    connections: int = 4
    """Connections to each database for publishing."""
    reader_connections: int = 2
    """Further ones for long polls and event streams, opened with the first."""
    waiting_max: int = 500
    """Requests that wait for a connection; further ones get 503."""
    body_bytes_max: int = 4 * MEBIBYTE
    body_s: float = 10.0
    """How long a client may take to send a body."""
    buffered_bytes_max: int = 256 * MEBIBYTE
    """Bytes of all bodies that are being received; further requests get 503."""
    batch_max: int = 1000
    """Events in one request."""
    rate_per_s: float = 1000.0
    """Events and requests of one access token or hook, unless the token has a limit of its own. Twice as many may come at once."""
    read_limit_max: int = 1000
    """Events in one answer."""
    wait_s_max: float = 60.0
    """The longest wait of a long poll."""
    readers_max: int = 1000
    """Long polls and event streams at a time; further ones get 503."""
    readers_per_token_max: int = 100
    """Those of one access token; further ones get 429."""
    cache_s: float = 5.0
    """For how long a token or hook is used again without a look into the database: a revoked token works no longer than this."""
