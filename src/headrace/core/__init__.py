"""Core: values, errors and limits that every room shares. Imports nothing of ours."""

from headrace.core import errors
from headrace.core.cloudevents import from_cloudevent, to_cloudevent
from headrace.core.configuration import Address, describe_secret_source, parse_reference, read_secret
from headrace.core.database_errors import map_database_errors, map_error
from headrace.core.durations import DURATION_BUCKETS_S, DurationHistogram, parse_duration, print_duration
from headrace.core.errors import *  # noqa: F403
from headrace.core.events import (
    ERASED_HEADER,
    EVENT_COLUMNS,
    STORED_COLUMNS,
    Event,
    EventColumn,
    LoggedEvent,
    StoredEvent,
    ValidatedEvent,
    derive_event_id,
    select_events,
    validate_event,
    validate_fields,
)
from headrace.core.extensions import ExtensionPoint
from headrace.core.json_forms import Payload, RawJSON
from headrace.core.json_text import JSON, decode, encode, raw_json
from headrace.core.limits import HEADERS_BYTES_MAX
from headrace.core.outcomes import Bury, Discard, HandlerOutcome, Retry
from headrace.core.quotas import NamespaceTurns, TokenBucket, TokenBuckets
from headrace.core.safe_text import error_text, redact, safe_json, safe_line, safe_lines
from headrace.core.templates import (
    EventPath,
    Placeholder,
    array_index,
    follow_path,
    parse_event_path,
    parse_path,
    parse_template,
)

__all__ = [
    "DURATION_BUCKETS_S",
    "ERASED_HEADER",
    "EVENT_COLUMNS",
    "HEADERS_BYTES_MAX",
    "JSON",
    "STORED_COLUMNS",
    "Address",
    "Bury",
    "Discard",
    "DurationHistogram",
    "Event",
    "EventColumn",
    "EventPath",
    "ExtensionPoint",
    "HandlerOutcome",
    "LoggedEvent",
    "NamespaceTurns",
    "Payload",
    "Placeholder",
    "RawJSON",
    "Retry",
    "StoredEvent",
    "TokenBucket",
    "TokenBuckets",
    "ValidatedEvent",
    "array_index",
    "decode",
    "derive_event_id",
    "describe_secret_source",
    "encode",
    "error_text",
    "follow_path",
    "from_cloudevent",
    "map_database_errors",
    "map_error",
    "parse_duration",
    "parse_event_path",
    "parse_path",
    "parse_reference",
    "parse_template",
    "print_duration",
    "raw_json",
    "read_secret",
    "redact",
    "safe_json",
    "safe_line",
    "safe_lines",
    "select_events",
    "to_cloudevent",
    "validate_event",
    "validate_fields",
]
__all__ += errors.__all__
