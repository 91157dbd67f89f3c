"""Outbox: publish events in the caller's own transaction, and capture changes of the user's own tables.

Owns: the way into the outbox. Promises: events become visible when the caller's transaction commits and vanish when it rolls
back; headrace never commits it. Events are checked before anything is written. The same event id twice is one event."""

from headrace.log.outbox.publishing import (
    Operation as Operation,
    capture as capture,
    publish as publish,
    publish_async as publish_async,
    publish_many as publish_many,
    publish_many_async as publish_many_async,
    release_capture as release_capture,
)
from headrace.log.outbox.statements import ascii_json as ascii_json, json_array as json_array
