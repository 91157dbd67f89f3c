-- The namespaces in which the current role holds a level ('any': one of them). Policies use it as a subquery, so that it runs once
-- per statement, not per row. Runs with the caller's rights: row-level security shows a role only its own grants.
create or replace function headrace_internal.granted(p_level text) returns setof text
language sql stable
as $$
    select g.namespace from headrace.namespace_grant g where g.level in (p_level, 'admin') or p_level = 'any'
$$;
