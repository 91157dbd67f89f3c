-- Forgets the failure of a unit that has succeeded. True if there was one. Cheap without one: an index probe that locks nothing.
-- Locks: the row of the failure. Index: failure_pkey.
create or replace function headrace_internal.clear_failure(p_kind text, p_namespace text, p_name text) returns boolean
language plpgsql volatile
-- The caller's session may have any.
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from headrace_internal.failure f
    where f.kind = p_kind and f.namespace = coalesce(p_namespace, '') and f.name = p_name;
    return found;
end
$$;
