-- The catalog of archived files.
create or replace view headrace.archive with (security_barrier) as
select a.archive_id, a.topic_id, a.day, a.first_position, a.last_position, a.first_at, a.last_at, a.events, a.checksum,
    a.folder, a.file, a.file_bytes, a.archived_at, a.archived_by
from headrace_internal.archive a
where a.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
