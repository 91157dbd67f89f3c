-- The namespaces in which the current role holds a level ('any': whichever). Used in policies as a subquery, so that it is
-- asked once per statement, not per row. Runs with the caller's rights: row-level security shows a role its own grants only.
create or replace function headrace.granted(p_level text) returns setof text
language sql stable
as $$
    select g.namespace from headrace.namespace_grant g where g.level in (p_level, 'admin') or p_level = 'any'
$$;

-- The topics in whose namespace the current role holds a level.
create or replace function headrace.granted_topics(p_level text) returns setof integer
language sql stable
as $$
    select t.topic_id from headrace.topic t where t.namespace in (select g.namespace from headrace.granted(p_level) g (namespace))
$$;
