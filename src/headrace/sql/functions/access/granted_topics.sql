-- The topics in whose namespace the current role holds a level.
create or replace function headrace_internal.granted_topics(p_level text) returns setof integer
language sql stable
as $$
    select t.topic_id from headrace.topic t
    where t.namespace in (select g.namespace from headrace.namespace_grant g where g.level in (p_level, 'admin') or p_level = 'any')
$$;
