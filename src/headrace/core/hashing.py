"""The number of a key, on which partitions and shards hang. The same as headrace_internal.key_hash in SQL."""

from __future__ import annotations

from hashlib import sha256


def key_hash(key: str) -> int:
    """0 to 2**32 - 1: the first four bytes of SHA-256 of the key's UTF-8."""
    return int.from_bytes(sha256(key.encode()).digest()[:4], "big")
