-- Stops a correlator whose newest version is invalid. Its keys keep their state until there is a valid version.
create or replace function headrace_internal.halt_correlator(p_correlator_id integer, p_position bigint) returns void
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.end_correlator_version(p_correlator_id, p_position);
    update headrace_internal.correlator_table t set halted = true where t.correlator_id = p_correlator_id
$$;
