-- Before a rule is written: finds its topic (HR101), checks its names, and counts a change of its definition as a new version.
create or replace function headrace_internal.rule_written() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'UPDATE' then
        if (new.namespace, new.rule, new.topic, new.event_type, new.condition, new.action, new.priority, new.delay_s,
                new.timing, new.active)
            is not distinct from (old.namespace, old.rule, old.topic, old.event_type, old.condition, old.action, old.priority,
                old.delay_s, old.timing, old.active) then
            new.topic_id := old.topic_id;
            return new;
        end if;
    end if;
    new.topic_id := headrace.topic_id(new.topic, new.namespace);
    perform headrace_internal.check_names(new.namespace, format('namespace "%s" does not know ', new.namespace) || nullif(concat_ws(' and ',
        case when not exists (select from headrace_internal.event_type e
            where e.namespace = new.namespace and e.event_type = new.event_type) then format('event type "%s"', new.event_type) end,
        case when not exists (select from headrace_internal.action a
            where a.namespace = new.namespace and a.action = new.action) then format('action "%s"', new.action) end), ''), 'rule');
    -- A rule that moves to another topic ends in the old one, and that is a version too.
    new.version := case when tg_op = 'INSERT' then 1 when old.topic_id <> new.topic_id then old.version + 2 else old.version + 1 end;
    new.status := 'pending';
    new.error := null;
    new.since_position := null;
    return new;
end
$$;

create or replace trigger rule_written before insert or update on headrace_internal.rule
for each row execute function headrace_internal.rule_written();
