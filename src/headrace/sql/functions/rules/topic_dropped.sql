-- After topics were dropped: drops their match functions and the functions of their correlators. Runs as the owner, who owns these
-- functions; only a trigger, so nobody can call it.
create or replace function headrace_internal.topic_dropped() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.drop_match(d.topic_id) from dropped d;
    perform headrace_internal.drop_symbols(f.correlator_id)
    from (
        select substring(p.proname from '^symbols_([0-9]+)$')::integer as correlator_id
        from pg_proc p where p.pronamespace = 'headrace_internal'::regnamespace and p.proname ~ '^symbols_[0-9]+$'
    ) f
    where not exists (select from headrace_internal.correlator c where c.correlator_id = f.correlator_id);
    return null;
end
$$;

create or replace trigger topic_dropped after delete on headrace_internal.topic
referencing old table as dropped for each statement execute function headrace_internal.topic_dropped();
