copy headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers) from stdin
