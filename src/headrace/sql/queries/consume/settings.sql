-- The settings of one consumer, with what became of its condition. Raises HR101 for an unknown topic. Index: consumer_name_unique.
select t.namespace, t.topic, c.consumer, c.ordered_by, c.condition, c.condition_status, c.condition_error, c.attempts_max, c.backoff_s,
    c.backoff_max_s, c.when_exhausted, c.key_order, c.created_at
from headrace.consumer c
join headrace.topic t on t.topic_id = c.topic_id
where c.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and c.consumer = %(consumer)s;
