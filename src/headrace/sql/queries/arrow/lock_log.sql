-- Keeps the time partitions of a topic from being dropped until the transaction ends. Reads nothing. Locks: log, access share.
select l.position from headrace.log l where l.topic_id = {topic_id} limit 0
