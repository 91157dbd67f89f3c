-- An invalid newest version: what ran stops, and its keys stay where they are until there is a valid one.
create or replace function headrace_internal.halt_correlator(p_correlator_id integer, p_position bigint) returns void
language sql volatile
as $$
    select headrace_internal.end_correlator_version(p_correlator_id, p_position);
    update headrace_internal.correlator_table t set halted = true where t.correlator_id = p_correlator_id
$$;
