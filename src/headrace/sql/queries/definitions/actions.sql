-- The actions of a namespace: registered ones, and those that only rules name or only nodes handle.
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
