select headrace.wake_topics(cast(%(topic_ids)s as integer[]))
