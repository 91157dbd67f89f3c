"""Core: values, errors and limits that every room shares. Imports nothing of ours."""

from headrace.core.cloudevents import from_cloudevent as from_cloudevent, to_cloudevent as to_cloudevent
from headrace.core.configuration import (
    Address as Address,
    describe_secret_source as describe_secret_source,
    is_reference as is_reference,
    parse_reference as parse_reference,
    read_secret as read_secret,
)
from headrace.core.database_errors import map_database_errors as map_database_errors, map_error as map_error
from headrace.core.durations import (
    DURATION_BUCKETS_S as DURATION_BUCKETS_S,
    DurationHistogram as DurationHistogram,
    parse_duration as parse_duration,
    print_duration as print_duration,
)
from headrace.core.errors import *  # noqa: F403
from headrace.core.events import (
    ERASED_HEADER as ERASED_HEADER,
    EVENT_COLUMNS as EVENT_COLUMNS,
    HEADERS_BYTES_MAX as HEADERS_BYTES_MAX,
    STORED_COLUMNS as STORED_COLUMNS,
    Event as Event,
    EventColumn as EventColumn,
    LoggedEvent as LoggedEvent,
    StoredEvent as StoredEvent,
    ValidatedEvent as ValidatedEvent,
    derive_event_id as derive_event_id,
    select_events as select_events,
    validate_event as validate_event,
    validate_fields as validate_fields,
)
from headrace.core.extensions import ExtensionPoint as ExtensionPoint
from headrace.core.json_forms import Payload as Payload, RawJSON as RawJSON
from headrace.core.json_text import JSON as JSON, decode as decode, encode as encode, raw_json as raw_json
from headrace.core.outcomes import Bury as Bury, Discard as Discard, HandlerOutcome as HandlerOutcome, Retry as Retry
from headrace.core.quotas import NamespaceTurns as NamespaceTurns, TokenBucket as TokenBucket, TokenBuckets as TokenBuckets
from headrace.core.safe_text import (
    error_text as error_text,
    redact as redact,
    safe_json as safe_json,
    safe_line as safe_line,
    safe_lines as safe_lines,
)
from headrace.core.templates import (
    EventPath as EventPath,
    Placeholder as Placeholder,
    array_index as array_index,
    follow_path as follow_path,
    parse_event_path as parse_event_path,
    parse_path as parse_path,
    parse_template as parse_template,
)
