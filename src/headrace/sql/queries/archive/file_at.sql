-- The first archived file, among those before the log, with an event of a time or later. Index: archive_position.
select a.first_position, a.last_position + 1 as until, a.folder, a.file
from headrace_internal.archive a
join headrace.topic t on t.topic_id = a.topic_id
where a.topic_id = %(topic_id)s and a.last_at >= %(at)s and a.first_position <= t.dropped_to
order by a.first_position
limit 1;
