-- The first file with events before the start of the log that has an event at a time or later. Index: archive_position.
select a.first_position, a.last_position + 1 as until, a.folder, a.file
from headrace.archive a
join headrace.topic t on t.topic_id = a.topic_id
where a.topic_id = %(topic_id)s and a.last_at >= %(at)s and a.first_position <= t.dropped_to
order by a.first_position
limit 1;
