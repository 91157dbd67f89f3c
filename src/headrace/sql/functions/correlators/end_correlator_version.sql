-- Ends the active version at a position, in the transaction that began the compilation.
create or replace function headrace_internal.end_correlator_version(p_correlator_id integer, p_position bigint) returns void
language sql volatile
as $$
    update headrace_internal.correlator_version v set until_position = p_position, until_at = headrace.clock()
    where v.correlator_id = p_correlator_id and v.since_position is not null and v.until_at is null
$$;
