-- Before a rule is written: finds its topic (HR101), checks its names, and counts a change of its definition as a new version.
-- Calls: topic_id, check_names.
create or replace function headrace_internal.rule_written() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Ends rules in their topic: adds a version after the given one that says "dropped". Rules that are dropped with their topic leave
-- no version. Index: rule_version_unique.
create or replace function headrace_internal.end_rules(p_rule_ids integer[], p_versions integer[]) returns void
language sql volatile
as $$
    insert into headrace_internal.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action,
        priority, delay_s, timing, active, dropped)
    select v.rule_id, v.version + 1, v.namespace, v.rule, v.topic_id, v.event_type, v.condition, v.action,
        v.priority, v.delay_s, v.timing, false, true
    from unnest(p_rule_ids, p_versions) e (rule_id, version)
    join headrace_internal.rule_version v on v.rule_id = e.rule_id and v.version = e.version
    join headrace_internal.topic t on t.topic_id = v.topic_id
    order by v.rule_id
$$;

-- After rules were written: records the new versions and notifies the compilers, once per statement. Runs as the owner: nobody
-- else writes versions.
-- Calls: end_rules, create_internal_consumer, notify.
create or replace function headrace_internal.rule_changed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- After topics were dropped: forgets their failed inline evaluations and drops the functions of their inline rules; their programs go
-- with the topic. Runs as the owner.
-- Calls: drop_inline.
create or replace function headrace_internal.topic_dropped() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from headrace_internal.inline_failure f using dropped d where f.topic_id = d.topic_id;
    perform headrace_internal.drop_inline(d.topic_id) from dropped d;
    return null;
end
$$;

create or replace trigger topic_dropped after delete on headrace_internal.topic
referencing old table as dropped for each statement execute function headrace_internal.topic_dropped();

-- Copies the results of compilations to headrace_internal.rule: those of some versions, or of all. A row that its writer still locks is
-- left for the next call. With many rules to compile, a call for all of them reads each that still waits.
-- Locks: rule rows whose version has been compiled, no key update, skip locked. Indexes: rule_pending, rule_version_pkey,
-- rule_version_unique.
create or replace function headrace_internal.show_status(p_version_ids bigint[] default null) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
