-- Up to when the timers of a topic's correlators have fired. Index: topic_pkey.
select t.timers_to from headrace.topic t where t.topic_id = %(topic_id)s;
