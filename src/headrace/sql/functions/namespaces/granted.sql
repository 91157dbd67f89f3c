-- The namespaces in which the current role holds a level ('any': whichever). Used in policies as a subquery, so that it is
-- asked once per statement, not per row. Runs with the caller's rights: row-level security shows a role its own grants only.
create or replace function headrace_internal.granted(p_level text) returns setof text
language sql stable
as $$
    select g.namespace from headrace_internal.namespace_grant g where g.level in (p_level, 'admin') or p_level = 'any'
$$;
