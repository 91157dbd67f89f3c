-- The columns that repeat come first: their bytes are made once for all events that share them.
copy headrace_internal.outbox (topic_id, slot, type, producer, emitted_at, event_id, key, payload, headers)
from stdin (format binary)
