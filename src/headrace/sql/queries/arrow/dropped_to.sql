-- The last position that retention has dropped from a topic's log. Index: topic_pkey.
select t.dropped_to from headrace.topic t where t.topic_id = {topic_id}
