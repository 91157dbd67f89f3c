-- Open dead letters counted by source, action, reason and error group: of actions, then of consumers, the largest groups first.
select 'action' as kind, 'queue' as source, a.action as name, a.reason, a.error_group, a.dead, a.first_at, a.last_at,
    a.example_id::text as example_id
from headrace.group_dead_letters(%(namespace)s) a
union all
select 'event', e.source, null, e.reason, e.error_group, count(*), min(e.buried_at), max(e.buried_at),
    concat_ws('/', e.source, max(e.position))
from (
    select t.topic || '/' || c.consumer as source, d.reason, d.error_group, d.buried_at, d.position
    from headrace.dead_letter d
    join headrace.consumer c on c.consumer_id = d.consumer_id
    join headrace.topic t on t.topic_id = c.topic_id
    where t.namespace = headrace.current_namespace(%(namespace)s) and d.state in ('dead', 'behind', 'redrive')) e
group by e.source, e.reason, e.error_group
order by kind, dead desc, source, name, error_group;
