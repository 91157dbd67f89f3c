-- Copies the results of compilations to headrace_internal.correlator. A row that its writer still locks is left for the next call.
-- Locks: correlator rows whose version has been compiled, no key update, skip locked. Index: correlator_pending.
create or replace function headrace_internal.show_correlator_status() returns integer
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    with shown as (
        update headrace_internal.correlator c
        set status = v.status, error = v.error, since_position = v.since_position
        from headrace_internal.correlator_version v
        where v.correlator_id = c.correlator_id and v.version = c.version and v.status <> 'pending'
            and c.correlator_id in (
                select p.correlator_id from headrace_internal.correlator p
                join headrace_internal.correlator_version w on w.correlator_id = p.correlator_id and w.version = p.version
                where p.status = 'pending' and w.status <> 'pending' for no key update of p skip locked)
        returning 1)
    select count(*)::integer from shown
$$;
