"""Core: values, errors and limits that every room shares. Imports nothing of ours."""

from headrace.core import errors
from headrace.core.addresses import Address
from headrace.core.cloudevents import from_cloudevent, to_cloudevent
from headrace.core.database_errors import map_database_errors, map_error
from headrace.core.duration import parse_duration, print_duration
from headrace.core.errors import *  # noqa: F403
from headrace.core.events import (
    ERASED_HEADER,
    Event,
    LoggedEvent,
    ValidatedEvent,
    derive_event_id,
    validate_event,
    validate_fields,
)
from headrace.core.extensions import ExtensionPoint
from headrace.core.histogram import DURATION_BUCKETS_S, DurationHistogram
from headrace.core.json_forms import Payload, RawJSON
from headrace.core.json_text import JSON, decode, encode
from headrace.core.limits import HEADERS_BYTES_MAX
from headrace.core.namespace_turns import NamespaceTurns
from headrace.core.outcomes import Bury, Discard, HandlerOutcome, Retry
from headrace.core.redaction import redact
from headrace.core.safe_text import error_text, safe_json, safe_line, safe_lines
from headrace.core.secret_references import parse_reference, read_secret, secret_place
from headrace.core.templates import (
    EventPath,
    Placeholder,
    array_index,
    follow_path,
    parse_event_path,
    parse_path,
    parse_template,
)
from headrace.core.token_bucket import TokenBucket, TokenBuckets

__all__ = [
    "DURATION_BUCKETS_S",
    "ERASED_HEADER",
    "HEADERS_BYTES_MAX",
    "JSON",
    "Address",
    "Bury",
    "Discard",
    "DurationHistogram",
    "Event",
    "EventPath",
    "ExtensionPoint",
    "HandlerOutcome",
    "LoggedEvent",
    "NamespaceTurns",
    "Payload",
    "Placeholder",
    "RawJSON",
    "Retry",
    "TokenBucket",
    "TokenBuckets",
    "ValidatedEvent",
    "array_index",
    "decode",
    "derive_event_id",
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
    "read_secret",
    "redact",
    "safe_json",
    "safe_line",
    "safe_lines",
    "secret_place",
    "to_cloudevent",
    "validate_event",
    "validate_fields",
]
__all__ += errors.__all__
