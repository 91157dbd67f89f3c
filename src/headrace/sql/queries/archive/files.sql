-- The files with a range of positions of a topic, in order. Index: archive_position.
select a.first_position, a.last_position + 1 as until, a.folder, a.file
from headrace.archive a
where a.topic_id = {topic_id} and a.first_position < {until} and a.last_position >= {first}
order by a.first_position
