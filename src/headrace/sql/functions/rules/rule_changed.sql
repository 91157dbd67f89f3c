-- After rules were written: records the new versions and notifies the compilers, once per statement. Runs as the owner: nobody
-- else writes versions.
create or replace function headrace_internal.rule_changed() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_changed boolean;
begin
    if tg_op = 'DELETE' then
        perform headrace_internal.end_rules(array_agg(o.rule_id), array_agg(o.version)) from gone o;
        v_changed := exists (select from gone);
    else
        if tg_op = 'UPDATE' then
            perform headrace_internal.end_rules(array_agg(o.rule_id), array_agg(o.version))
            from former o join written n on n.rule_id = o.rule_id where n.topic_id <> o.topic_id;
        end if;
        with new_versions as (
            insert into headrace_internal.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action,
                priority, delay_s, timing, active)
            select n.rule_id, n.version, n.namespace, n.rule, n.topic_id, n.event_type, n.condition, n.action,
                n.priority, n.delay_s, n.timing, n.active
            from written n
            where not exists (select from headrace_internal.rule_version v where v.rule_id = n.rule_id and v.version = n.version)
            order by n.rule_id
            returning topic_id
        )
        select count(headrace_internal.create_internal_consumer(d.topic_id, 'headrace.rules')) > 0 into v_changed
        from (select distinct m.topic_id from new_versions m) d;
    end if;
    if v_changed then
        perform headrace_internal.notify('headrace_rule', '');
    end if;
    return null;
end
$$;

create or replace trigger rule_inserted after insert on headrace_internal.rule
referencing new table as written for each statement execute function headrace_internal.rule_changed();

create or replace trigger rule_updated after update on headrace_internal.rule
referencing old table as former new table as written for each statement execute function headrace_internal.rule_changed();

create or replace trigger rule_deleted after delete on headrace_internal.rule
referencing old table as gone for each statement execute function headrace_internal.rule_changed();
