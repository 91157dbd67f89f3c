-- The archived files of a namespace, or of one topic. Index: archive_position.
select a.topic_id, t.topic, a.day, a.first_position, a.last_position, a.first_at, a.last_at, a.events, a.checksum::text as checksum,
    a.folder, a.file, a.file_bytes, a.archived_at, a.archived_by, a.first_position > t.dropped_to as in_log
from headrace.archive a
join headrace.topic t on t.topic_id = a.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
order by t.topic, a.first_position;
