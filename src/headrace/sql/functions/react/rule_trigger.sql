-- Before a rule is written: finds its topic (HR101), checks its names, and counts a change of its definition as a new version.
create or replace function headrace.rule_written() returns trigger
language plpgsql volatile
as $$
begin
    if tg_op = 'UPDATE' then
        if (new.namespace, new.rule, new.topic, new.event_type, new.condition, new.action, new.priority, new.delay_s,
                new.timing, new.active)
            is not distinct from (old.namespace, old.rule, old.topic, old.event_type, old.condition, old.action, old.priority,
                old.delay_s, old.timing, old.active) then
            return new;
        end if;
    end if;
    new.topic_id := headrace.topic_id(new.topic, new.namespace);
    perform headrace.check_names(new.namespace, new.event_type, new.action);
    -- A rule that goes to another topic ends in the old one, and that is a version too.
    new.version := case when tg_op = 'INSERT' then 1 when old.topic_id <> new.topic_id then old.version + 2 else old.version + 1 end;
    new.status := 'pending';
    new.error := null;
    new.since_position := null;
    return new;
end
$$;

-- The reserved consumer of a topic with rules, from the head of the log on. It holds back the log's retention, so it is
-- there only while there are rules. Locks nothing: two at once are one. Always true.
create or replace function headrace.watch_topic(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_consumer_id integer;
begin
    insert into headrace.consumer (topic_id, consumer, ordered_by) values (p_topic_id, 'headrace.rules', 'topic')
    on conflict on constraint consumer_name_unique do nothing
    returning consumer_id into v_consumer_id;
    if v_consumer_id is not null then
        insert into headrace.cursor (consumer_id, partition, position)
        select v_consumer_id, -1, coalesce((select h.position from headrace.log_head(p_topic_id) h), t.dropped_to)
        from headrace.topic t where t.topic_id = p_topic_id;
    end if;
    return true;
end
$$;

-- The end of rules in their topic: a version that follows the one given. Rules that go with their topic leave nothing behind.
-- Index: rule_version_unique.
create or replace function headrace.end_rules(p_rule_ids integer[], p_versions integer[]) returns void
language sql volatile
as $$
    insert into headrace.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action,
        priority, delay_s, timing, active, dropped)
    select v.rule_id, v.version + 1, v.namespace, v.rule, v.topic_id, v.event_type, v.condition, v.action,
        v.priority, v.delay_s, v.timing, false, true
    from unnest(p_rule_ids, p_versions) e (rule_id, version)
    join headrace.rule_version v on v.rule_id = e.rule_id and v.version = e.version
    join headrace.topic t on t.topic_id = v.topic_id
    order by v.rule_id
$$;

-- After rules were written: keeps the new versions and calls the compilers, once per statement.
create or replace function headrace.rule_changed() returns trigger
language plpgsql volatile
as $$
declare
    v_changed boolean;
begin
    if tg_op = 'DELETE' then
        perform headrace.end_rules(array_agg(o.rule_id), array_agg(o.version)) from gone o;
        v_changed := exists (select from gone);
    else
        if tg_op = 'UPDATE' then
            perform headrace.end_rules(array_agg(o.rule_id), array_agg(o.version))
            from former o join written n on n.rule_id = o.rule_id where n.topic_id <> o.topic_id;
        end if;
        with made as (
            insert into headrace.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action,
                priority, delay_s, timing, active)
            select n.rule_id, n.version, n.namespace, n.rule, n.topic_id, n.event_type, n.condition, n.action,
                n.priority, n.delay_s, n.timing, n.active
            from written n
            where not exists (select from headrace.rule_version v where v.rule_id = n.rule_id and v.version = n.version)
            order by n.rule_id
            returning topic_id
        )
        select count(headrace.watch_topic(d.topic_id)) > 0 into v_changed from (select distinct m.topic_id from made m) d;
    end if;
    if v_changed then
        perform pg_notify('headrace_rule', '');
    end if;
    return null;
end
$$;

create or replace trigger rule_written before insert or update on headrace.rule
for each row execute function headrace.rule_written();
create or replace trigger rule_inserted after insert on headrace.rule
referencing new table as written for each statement execute function headrace.rule_changed();
create or replace trigger rule_updated after update on headrace.rule
referencing old table as former new table as written for each statement execute function headrace.rule_changed();
create or replace trigger rule_deleted after delete on headrace.rule
referencing old table as gone for each statement execute function headrace.rule_changed();
