-- Every dead letter there is: the consumers' events and the queues' actions.
create or replace view headrace.dead_letters as
select t.namespace, 'event' as kind, d.dead_letter_id, t.topic || '/' || c.consumer as source, d.event_id as id, d.type as name, d.key,
    d.payload, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace_internal.dead_letter d
join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
where d.state in ('dead', 'behind', 'redrive')
union all
select n.namespace, 'action', a.dead_letter_id, 'queue', a.action_id, a.action, a.key, a.payload, 'dead', a.reason, a.error, a.attempts, a.buried_at
from headrace.namespace n
cross join lateral headrace.action_dead_letters(p_namespace => n.namespace) a;
