select headrace_internal.wake_topics(cast(%(topic_ids)s as integer[]))
