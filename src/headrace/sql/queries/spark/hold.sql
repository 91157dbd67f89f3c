-- Locks a topic's time partitions against being dropped until the transaction ends (access share), and reads nothing.
select l.position from headrace_internal.log l where l.topic_id = {topic_id} limit 0
