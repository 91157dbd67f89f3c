-- Copies the results of compilations to headrace_internal.rule: those of some versions, or of all. A row that its writer still locks is
-- left for the next call. With many rules to compile, a call for all of them reads each that still waits.
-- Locks: rule rows whose version has been compiled, no key update, skip locked. Indexes: rule_pending, rule_version_pkey,
-- rule_version_unique.
create or replace function headrace_internal.show_status(p_version_ids bigint[] default null) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_shown integer;
begin
    if p_version_ids is not null then
        with shown as (
            update headrace_internal.rule r
            set status = v.status, error = v.error, since_position = v.since_position
            from headrace_internal.rule_version v
            where v.version_id = any (p_version_ids) and v.rule_id = r.rule_id and v.version = r.version and v.status <> 'pending'
                and r.rule_id in (
                    select p.rule_id from headrace_internal.rule p
                    join headrace_internal.rule_version c on c.rule_id = p.rule_id and c.version = p.version
                    where c.version_id = any (p_version_ids) and p.status = 'pending' for no key update of p skip locked)
            returning 1)
        select count(*) into v_shown from shown;
        return v_shown;
    end if;
    with shown as (
        update headrace_internal.rule r
        set status = v.status, error = v.error, since_position = v.since_position
        from headrace_internal.rule_version v
        where v.rule_id = r.rule_id and v.version = r.version and v.status <> 'pending'
            -- Only these are locked: with many rules to compile, every batch would write a lock into each that still waits.
            and r.rule_id in (
                select p.rule_id from headrace_internal.rule p
                join headrace_internal.rule_version c on c.rule_id = p.rule_id and c.version = p.version
                where p.status = 'pending' and c.status <> 'pending' for no key update of p skip locked)
        returning 1)
    select count(*) into v_shown from shown;
    return v_shown;
end
$$;
