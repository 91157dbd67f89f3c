"""AMQP 1.0 encoding of messages, as RabbitMQ streams store them (OASIS AMQP 1.0, parts 1.6 and 3.2).

The library's encoder walks a tree of types for every value: for a message with eleven headers that took two thirds of a delivery. A message
of ours has one fixed shape, so its bytes are put together here, and headers that repeat come already encoded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

__all__ = ["encode_header", "encode_message"]

# Format codes: the small form has a length of one byte, the large one of four.
_STRING: Final = (b"\xa1", b"\xb1")
_SYMBOL: Final = (b"\xa3", b"\xb3")
_BINARY: Final = (b"\xa0", b"\xb0")
_NULL: Final = b"\x40"
_LIST_LARGE: Final = b"\xd0"
_MAP_LARGE: Final = b"\xd1"
# Descriptors of sections.
_PROPERTIES: Final = b"\x00\x53\x73"
_APPLICATION_PROPERTIES: Final = b"\x00\x53\x74"
_DATA: Final = b"\x00\x53\x75"

_pack_size = Struct(">I").pack
_pack_size_and_count = Struct(">II").pack
_SMALL: Final = [bytes((size,)) for size in range(256)]
_COUNT_BYTES: Final = 4
CACHED_MAX: Final = 1024
"""How many encoded types and names are remembered: publishers choose them, and may choose many."""


def encode_header(name: str, value: str) -> bytes:
    """One application property: both are strings."""
    return _name(name) + _variable(_STRING, value.encode())


def encode_message(*, message_id: str, subject: str, content_type: str, headers: Sequence[bytes], body: bytes) -> bytes:
    """A message with properties, application properties (by `encode_header`) and one data section."""
    # message-id, user-id, to, subject, reply-to, correlation-id, content-type
    properties = _variable(_STRING, message_id.encode()) + _subject_and_content_type(subject, content_type)
    encoded_headers = b"".join(headers)
    return b"".join(
        (
            _PROPERTIES,
            _LIST_LARGE,
            _pack_size_and_count(len(properties) + _COUNT_BYTES, 7),
            properties,
            _APPLICATION_PROPERTIES,
            _MAP_LARGE,
            _pack_size_and_count(len(encoded_headers) + _COUNT_BYTES, 2 * len(headers)),
            encoded_headers,
            _DATA,
            _variable(_BINARY, body),
        )
    )


@lru_cache(CACHED_MAX)
def _name(name: str) -> bytes:
    return _variable(_STRING, name.encode())


@lru_cache(CACHED_MAX)
def _subject_and_content_type(subject: str, content_type: str) -> bytes:
    return _NULL + _NULL + _variable(_STRING, subject.encode()) + _NULL + _NULL + _variable(_SYMBOL, content_type.encode())


def _variable(codes: tuple[bytes, bytes], data: bytes) -> bytes:
    size = len(data)
    return codes[0] + _SMALL[size] + data if size < len(_SMALL) else codes[1] + _pack_size(size) + data
