-- The firings of a rule, newest first, among the newest firings of its topics. Versions of all times: a rule may have moved.
-- Index: firing_position backwards. Firings by rule have no index: the limit bounds what is read.
select f.fired_at, f.position, f.event_id, v.version, f.action, f.action_id
from (
    select distinct v.topic_id from headrace.rule_version v
    where v.namespace = headrace.current_namespace(%(namespace)s) and v.rule = %(rule)s
) t
cross join lateral (
    select f.fired_at, f.position, f.event_id, f.action, f.action_id, f.rule_version_id
    from headrace.firing f
    where f.topic_id = t.topic_id and f.position is not null
    order by f.position desc
    limit %(limit)s
) f
join headrace.rule_version v on v.version_id = f.rule_version_id and v.rule = %(rule)s
    and v.namespace = headrace.current_namespace(%(namespace)s)
order by f.fired_at desc, f.position desc;
