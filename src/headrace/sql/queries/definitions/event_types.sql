-- The event types of a namespace: registered ones, and those that only rules name.
select coalesce(e.event_type, r.event_type) as name, e.event_type is not null as registered, e.description,
    coalesce(r.rules, 0) as rules
from (select event_type, description from headrace.event_type where namespace = headrace.current_namespace(%(namespace)s)) e
full join (
    select event_type, count(*) as rules from headrace.rule
    where namespace = headrace.current_namespace(%(namespace)s) group by event_type) r on r.event_type = e.event_type
order by 1;
