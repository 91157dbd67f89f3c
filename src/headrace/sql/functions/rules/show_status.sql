-- Copies the results of compilations to headrace_internal.rule. A row that its writer still locks is left for the next call.
-- Locks: rule rows, no key update, skip locked. Index: rule_pending.
create or replace function headrace_internal.show_status() returns integer
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    with shown as (
        update headrace_internal.rule r
        set status = v.status, error = v.error, since_position = v.since_position
        from headrace_internal.rule_version v
        where v.rule_id = r.rule_id and v.version = r.version and v.status <> 'pending'
            and r.rule_id in (select p.rule_id from headrace_internal.rule p where p.status = 'pending' for no key update skip locked)
        returning 1)
    select count(*)::integer from shown
$$;
