-- Drops one topic's time partitions that ended before a moment, and tells what was dropped and kept.
select %(topic)s::text as topic, d.name, d.events, d.dropped, d.kept_for
from headrace.drop_expired(headrace_internal.topic_id(%(topic)s, %(namespace)s), %(before)s, %(force)s) d;
