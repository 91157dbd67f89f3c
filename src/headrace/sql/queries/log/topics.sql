-- The topics of a namespace, or one of them, with the end of the log, the size of the outbox and the number of consumers.
-- Indexes: topic_name_unique, log_position backwards, outbox_order.
select t.topic_id, t.namespace, t.topic, t.partitions, t.time_partition, t.clock, t.retention, t.engine, t.archive,
    t.dropped_to + 1 as first_position,
    coalesce(h.position, t.dropped_to) as last_position,
    h.appended_at as last_appended_at,
    (select count(*) from headrace.outbox o where o.topic_id = t.topic_id) as waiting,
    (select count(*) from headrace.consumer c where c.topic_id = t.topic_id) as consumers
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or t.topic = %(topic)s)
order by t.topic;
