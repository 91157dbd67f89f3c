-- All dead letters: events of consumers and actions of queues, with the payload that a redrive delivers.
create or replace view headrace.dead_letters with (security_barrier) as
select t.namespace, 'event' as kind, d.dead_letter_id, t.topic || '/' || c.consumer as source, d.event_id as id, d.type as name, d.key,
    coalesce(d.edited_payload, d.payload) as payload, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace_internal.dead_letter d
join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace_internal.topic t on t.topic_id = c.topic_id
where d.state in ('dead', 'behind', 'redrive') and t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume')
union all
select n.namespace, 'action', a.dead_letter_id, 'queue', a.action_id, a.action, a.key, a.payload, 'dead', a.reason, a.error, a.attempts, a.buried_at
from (
    -- "offset 0": the function must not be called for a namespace in which the reader may only publish.
    select k.namespace from headrace_internal.caller_level k where k.level = 'consume' offset 0
) n
cross join lateral headrace.action_dead_letters(p_namespace => n.namespace) a;
