-- Open dead letters counted by source, reason and kind of error, the largest groups first. At most %(rows)s letters of each kind are read,
-- the oldest, so that a page costs the same however many there are. Reads public functions and views only.
select 'action' as kind, 'queue' as source, a.action as name, a.reason, a.error_group, count(*) as dead, 0::bigint as marked,
    min(a.buried_at) as first_at, max(a.buried_at) as last_at
from headrace.action_dead_letters(p_limit => %(rows)s, p_namespace => %(namespace)s) a
group by a.action, a.reason, a.error_group
union all
select 'event', e.source, null, e.reason, e.error_group, count(*) filter (where e.state <> 'redrive'),
    count(*) filter (where e.state = 'redrive'), min(e.buried_at), max(e.buried_at)
from (
    select t.topic || '/' || c.consumer as source, d.reason, d.error_group, d.buried_at, d.state
    from headrace.dead_letter d
    join headrace.consumer c on c.consumer_id = d.consumer_id
    join headrace.topic t on t.topic_id = c.topic_id
    where t.namespace = headrace.current_namespace(%(namespace)s) and d.state in ('dead', 'behind', 'redrive')
    limit %(rows)s) e
group by e.source, e.reason, e.error_group
order by dead desc, source, name, error_group;
