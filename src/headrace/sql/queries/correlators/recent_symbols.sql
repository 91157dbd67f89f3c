-- Key and symbols of the events of a topic after a position, from the public view. The braces are filled with what our own printers
-- made of checked trees. Index: log_position.
select ({key}) collate "C" as key, array[{symbols}]::integer[] as symbols, appended_at
from headrace.log
where topic_id = {topic_id} and position > {after}
order by position
