-- name: actions
-- Selects the actions of a namespace: registered ones, and those that only rules name or only nodes handle.
with registered as (
    select a.action, a.description from headrace.action a where a.namespace = headrace.current_namespace(%(namespace)s)
), ruled as (
    select r.action, count(*) as rules from headrace.rule r
    where r.namespace = headrace.current_namespace(%(namespace)s) group by r.action
), handled as (
    select h.action, count(*) as nodes
    from headrace.node_state n cross join unnest(n.handlers) h (action)
    where n.namespace = headrace.current_namespace(%(namespace)s) and n.state = 'alive' group by h.action
)
select a.action as name, g.action is not null as registered, g.description,
    coalesce(r.rules, 0) as rules, coalesce(h.nodes, 0) as nodes
from (select action from registered union select action from ruled union select action from handled) a
left join registered g using (action)
left join ruled r using (action)
left join handled h using (action)
order by a.action;

-- name: event_types
-- Selects the event types of a namespace: registered ones, and those that only rules name.
select coalesce(e.event_type, r.event_type) as name, e.event_type is not null as registered, e.description,
    coalesce(r.rules, 0) as rules
from (select event_type, description from headrace.event_type where namespace = headrace.current_namespace(%(namespace)s)) e
full join (
    select event_type, count(*) as rules from headrace.rule
    where namespace = headrace.current_namespace(%(namespace)s) group by event_type) r on r.event_type = e.event_type
order by 1;

-- name: fail
-- Records that the batch right after a reserved consumer's cursor failed. Index: cursor_pkey.
select headrace.fail(u.consumer_id, u.partition, u.position, d.upto, d.events, %(error)s)
from headrace.cursor u
cross join lateral headrace_internal.batch_end(u.consumer_id, %(topic_id)s, -1, u.position,
    case when u.single_to > u.position then 1 else %(max)s end) d
where u.consumer_id = %(consumer_id)s and u.partition = -1;

-- name: register
-- Adds a name to its registry; one that is there gets the description, if there is one.
with changed as (
    update headrace.{registry} set description = coalesce(%(description)s, description)
    where namespace = headrace.current_namespace(%(namespace)s) and {registry} = %(name)s returning 1
)
insert into headrace.{registry} (namespace, {registry}, description)
select headrace.current_namespace(%(namespace)s), %(name)s, %(description)s where not exists (select from changed);

-- name: unregister
-- Removes a name from its registry; rules that use it stay.
update headrace.{registry} set dropped = true where namespace = headrace.current_namespace(%(namespace)s) and {registry} = %(name)s;
