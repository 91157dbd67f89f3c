-- Columns and values of a namespace that a stranger could guess or have seen: names, ids, and some ids of events and actions.
select i.name, v.value
from (values
    ('topic_id', array(select t.topic_id::text from headrace_internal.topic t where t.namespace = %(namespace)s)),
    ('topic', array(select t.topic from headrace_internal.topic t where t.namespace = %(namespace)s)),
    ('consumer_id', array(
        select c.consumer_id::text from headrace_internal.consumer c
        join headrace_internal.topic t on t.topic_id = c.topic_id where t.namespace = %(namespace)s)),
    ('consumer', array(
        select c.consumer from headrace_internal.consumer c
        join headrace_internal.topic t on t.topic_id = c.topic_id where t.namespace = %(namespace)s)),
    ('dead_letter_id', array(
        select d.dead_letter_id::text from headrace_internal.dead_letter d
        join headrace_internal.consumer c on c.consumer_id = d.consumer_id
        join headrace_internal.topic t on t.topic_id = c.topic_id where t.namespace = %(namespace)s limit 20)),
    ('schedule_id', array(select s.schedule_id::text from headrace_internal.schedule s where s.namespace = %(namespace)s)),
    ('schedule', array(select s.schedule from headrace_internal.schedule s where s.namespace = %(namespace)s)),
    ('rule', array(select r.rule from headrace_internal.rule r where r.namespace = %(namespace)s)),
    ('relay_id', array(select r.relay_id::text from headrace_internal.relay r where r.namespace = %(namespace)s)),
    ('relay', array(select r.relay from headrace_internal.relay r where r.namespace = %(namespace)s)),
    ('token_id', array(select a.token_id::text from headrace_internal.access_token a where a.namespace = %(namespace)s)),
    ('hook', array(select h.hook from headrace_internal.hook h where h.namespace = %(namespace)s)),
    ('erasure_id', array(select e.erasure_id::text from headrace_internal.erasure e where e.namespace = %(namespace)s limit 20)),
    ('node_id', array(select n.node_id::text from headrace_internal.node n where n.namespace = %(namespace)s limit 20)),
    ('event_id', array(
        select l.event_id::text from headrace_internal.log l
        join headrace_internal.topic t on t.topic_id = l.topic_id where t.namespace = %(namespace)s limit 20)),
    ('action_id', array(select a.action_id::text from headrace_internal.attempt a where a.namespace = %(namespace)s limit 20))
) i (name, found)
cross join lateral unnest(i.found) with ordinality v (value, place)
order by i.name, v.place
