"""Limits of an event. SQL enforces the same numbers (core/sql/functions/limits.sql); a test compares them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

PAYLOAD_BYTES_MAX: Final = 1_048_576
"""Bytes of the payload as PostgreSQL prints it. Larger data belongs in a store, with a reference in the event."""

PAYLOAD_DEPTH_MAX: Final = 128
"""Levels of arrays and objects. Every common JSON reader follows more levels than this."""

HEADERS_BYTES_MAX: Final = 16_384
KEY_BYTES_MAX: Final = 1024
PRODUCER_BYTES_MAX: Final = 1024
TYPE_CHARS_MAX: Final = 200
NUMBER_MAX: Final = 17976931348623158 * 10**292
"""The largest number that rounds to a finite double. jsonb stores larger ones, but most JSON readers reject them."""

EMITTED_AT_MIN: Final = datetime(1, 1, 2, tzinfo=UTC)
EMITTED_AT_MAX: Final = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
"""The range of Python's datetime, less a day at both ends, so that a time fits in every time zone."""
