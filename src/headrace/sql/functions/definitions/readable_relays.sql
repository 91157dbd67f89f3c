-- The rows of headrace_internal.relay that the caller may read. The view headrace.relay selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_relays(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.relay
language sql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select r from headrace_internal.relay r
    where r.namespace in (
        select n.namespace from headrace_internal.namespace n where headrace_internal.holds_level(p_caller, 'consume', n.namespace))
$$;
