-- An event by its id: in the log, or else in the outbox. `passed`: the rules have handled it.
-- The outbox is scanned, because it is short.
with logged as materialized (
    select f.topic_id, f.position from headrace.find_event(%(event_id)s, %(namespace)s) f
)
select t.topic_id, l.event_id, t.namespace, t.topic, l.position, l.partition, l.type, l.key, l.payload, l.headers,
    l.payload::text as payload_text, l.headers::text as headers_text, l.emitted_at, l.appended_at, l.producer,
    coalesce((select u.position >= l.position
        from headrace.consumer c join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
        where c.topic_id = t.topic_id and c.consumer = 'headrace.rules'), false) as passed
from (
    select g.topic_id, l.event_id, l.position, l.partition, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer
    from logged g cross join lateral headrace.read_log(g.topic_id, g.position - 1, 1) l
    union all
    select o.topic_id, o.event_id, null, null, o.type, o.key, o.payload, o.headers, o.emitted_at, null, o.producer
    from headrace.outbox o
    where o.event_id = %(event_id)s and not exists (select from logged g where g.topic_id = o.topic_id)
) l
join headrace.topic t on t.topic_id = l.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.topic;
