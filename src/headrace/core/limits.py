"""A limit on everything. SQL enforces the same numbers (sql/functions/core/*_within_limits.sql); a test compares them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

PAYLOAD_BYTES_MAX: Final = 1_048_576
"""Of the payload as PostgreSQL prints it. Larger things belong in a store, with a reference in the event."""

PAYLOAD_DEPTH_MAX: Final = 128
"""Levels of arrays and objects. JSON readers give up at some depth; this is well within all of them."""

HEADERS_BYTES_MAX: Final = 16_384
KEY_BYTES_MAX: Final = 1024
PRODUCER_BYTES_MAX: Final = 1024
TYPE_CHARS_MAX: Final = 200
NUMBER_MAX: Final = 17976931348623158 * 10**292
"""What still rounds to the largest double. jsonb keeps larger numbers, most JSON readers refuse the whole text."""

EMITTED_AT_MIN: Final = datetime(1, 1, 2, tzinfo=UTC)
EMITTED_AT_MAX: Final = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
"""The years that Python's datetime knows, less a day at either end, so that they are in it in any time zone."""
