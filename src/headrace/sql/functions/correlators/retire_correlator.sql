-- Removes the keys, the table and, unless it is still needed, the consumer of a correlator that is dropped or not active.
create or replace function headrace_internal.retire_correlator(p_correlator_id integer, p_position bigint) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.end_correlator_version(p_correlator_id, p_position);
    delete from headrace_internal.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id;
    perform headrace_internal.unwatch_correlator(p_correlator_id);
end
$$;
