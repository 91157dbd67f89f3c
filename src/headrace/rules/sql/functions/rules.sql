-- Reports the event type and the action of a rule that are not registered. In PL/pgSQL, which keeps its plan: headrace_internal.definition_written
-- calls it by EXECUTE, and a function in SQL is planned anew for every rule that a statement writes.
-- Calls: check_names.
create or replace function headrace_internal.check_rule(p_rule headrace_internal.rule) returns void
language plpgsql stable
as $$
begin
    perform headrace_internal.check_names(p_rule.namespace, format('namespace "%s" does not know ', p_rule.namespace) || nullif(concat_ws(' and ',
        case when not exists (select from headrace_internal.event_type e
            where e.namespace = p_rule.namespace and e.event_type = p_rule.event_type) then format('event type "%s"', p_rule.event_type) end,
        case when not exists (select from headrace_internal.action a
            where a.namespace = p_rule.namespace and a.action = p_rule.action) then format('action "%s"', p_rule.action) end), ''), 'rule');
end
$$;

-- A change is a new version.
create or replace trigger rule_written before insert or update on headrace_internal.rule
for each row execute function headrace_internal.definition_written();

-- After rules were written: records the new versions and notifies the compilers, once per statement. A rule that moves to another
-- topic ends in the old one. Runs as the owner: nobody else writes versions.
-- Calls: record_versions, create_internal_consumer, notify.
create or replace function headrace_internal.rule_changed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_changed boolean;
begin
    if tg_op = 'DELETE' then
        perform headrace_internal.record_versions('rule', (select jsonb_agg(to_jsonb(o)) from gone o), p_dropped => true);
        v_changed := exists (select from gone);
    else
        if tg_op = 'UPDATE' then
            perform headrace_internal.record_versions('rule', (
                select jsonb_agg(to_jsonb(o)) from former o join written n on n.rule_id = o.rule_id where n.topic_id <> o.topic_id),
                p_dropped => true);
        end if;
        select count(headrace_internal.create_internal_consumer(d.topic_id, 'headrace.rules')) > 0 into v_changed
        from unnest(headrace_internal.record_versions('rule', (select jsonb_agg(to_jsonb(n)) from written n))) d (topic_id);
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
