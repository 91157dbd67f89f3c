-- Begins the compilation of a topic's pending versions: the rules' cursor of the topic is held, so no batch runs meanwhile,
-- and its position is what the new versions start after. Locks: the cursor row; it waits for a running batch.
create or replace function headrace.begin_compile(p_topic_id integer) returns bigint
language plpgsql volatile
as $$
declare
    v_position bigint;
begin
    perform headrace.watch_topic(p_topic_id);
    select u.position into strict v_position
    from headrace.consumer c
    join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.topic_id = p_topic_id and c.consumer = 'headrace.rules'
    for no key update of u;
    return v_position;
end
$$;

-- Puts compiled versions into force after a position, in the transaction that began the compilation. The version in force before
-- ends there, whatever the new one is: an invalid one is not evaluated, and the text it replaced is not what is wanted any more.
-- p_compiled: an array of {version_id, error, canonical, shape, key, integers, numerics, texts, moments}.
-- Indexes: rule_version_pkey, rule_version_unique, rule_match_pkey.
create or replace function headrace.take_effect(p_topic_id integer, p_position bigint, p_compiled jsonb) returns void
language plpgsql volatile
as $$
begin
    create temporary table compiled on commit drop as
    select c.version_id, c.error, c.canonical, c.shape, c.key, c.integers, c.numerics, c.texts, c.moments,
        v.rule_id, v.event_type, v.timing,
        -- Of several versions of a rule the last one counts.
        v.active and c.error is null and v.version_id = max(v.version_id) over (partition by v.rule_id) as starts
    from jsonb_to_recordset(p_compiled) c (version_id bigint, error text, canonical text, shape text, key text,
        integers bigint[], numerics numeric[], texts text[], moments timestamptz[])
    join headrace.rule_version v on v.version_id = c.version_id;

    delete from headrace.rule_match m
    using headrace.rule_version v
    where v.version_id = m.version_id and v.topic_id = p_topic_id and v.rule_id in (select c.rule_id from compiled c);
    update headrace.rule_version v set until_position = p_position, until_at = headrace.clock()
    where v.topic_id = p_topic_id and v.rule_id in (select c.rule_id from compiled c)
        and v.since_position is not null and v.until_position is null;
    update headrace.rule_version v
    set status = case when c.error is null then 'valid' else 'invalid' end, error = c.error, canonical = c.canonical,
        since_position = case when c.starts then p_position + 1 end, since_at = case when c.starts then headrace.clock() end
    from compiled c where v.version_id = c.version_id;

    insert into headrace.rule_shape (topic_id, timing, shape)
    select distinct p_topic_id, c.timing, c.shape from compiled c where c.starts
    on conflict (topic_id, timing, md5(shape)) do nothing;
    insert into headrace.rule_match (shape_id, version_id, since_position, event_type, key, integers, numerics, texts, moments)
    select s.shape_id, c.version_id, p_position + 1, c.event_type, coalesce(c.key, ''), c.integers, c.numerics, c.texts, c.moments
    from compiled c
    join headrace.rule_shape s on s.topic_id = p_topic_id and s.timing = c.timing and md5(s.shape) = md5(c.shape)
    where c.starts;
    delete from headrace.rule_shape s
    where s.topic_id = p_topic_id and not exists (select from headrace.rule_match m where m.shape_id = s.shape_id);
    drop table compiled;
end
$$;

-- Shows the outcome of compilations in headrace.rule. A row that its writer still holds is left for the next time.
-- Locks: rule rows, no key update, skip locked. Index: rule_pending.
create or replace function headrace.show_status() returns integer
language plpgsql volatile
as $$
declare
    v_shown integer;
begin
    update headrace.rule r
    set status = v.status, error = v.error, since_position = v.since_position
    from headrace.rule_version v
    where v.rule_id = r.rule_id and v.version = r.version and v.status <> 'pending'
        and r.rule_id in (select p.rule_id from headrace.rule p where p.status = 'pending' for no key update skip locked);
    get diagnostics v_shown = row_count;
    return v_shown;
end
$$;

-- Drops a topic's match function, if it has one.
create or replace function headrace.drop_match(p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_function text := format('headrace.%I(bigint, bigint)', 'match_' || p_topic_id);
begin
    if to_regprocedure(v_function) is not null then
        execute format('drop function %s', v_function);
    end if;
end
$$;

-- A dropped topic takes along its match function and the functions of its correlators. Runs as the owner, whose function that is; a trigger only, so nobody else
-- can call it.
create or replace function headrace.topic_dropped() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace.drop_match(d.topic_id) from dropped d;
    perform headrace.drop_symbols(f.correlator_id)
    from (
        select substring(p.proname from '^symbols_([0-9]+)$')::integer as correlator_id
        from pg_proc p where p.pronamespace = 'headrace'::regnamespace and p.proname ~ '^symbols_[0-9]+$'
    ) f
    where not exists (select from headrace.correlator c where c.correlator_id = f.correlator_id);
    return null;
end
$$;

create or replace trigger topic_dropped after delete on headrace.topic
referencing old table as dropped for each statement execute function headrace.topic_dropped();

-- Takes the reserved consumer off a topic without rules, so that it holds no log back. True when it did.
-- In the transaction that began a compilation. A rule that is being written right now is found by the next compilation.
create or replace function headrace.unwatch_topic(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
begin
    if exists (select from headrace.rule r where r.topic_id = p_topic_id)
        or exists (select from headrace.rule_version v where v.topic_id = p_topic_id and v.status = 'pending') then
        return false;
    end if;
    delete from headrace.consumer c where c.topic_id = p_topic_id and c.consumer = 'headrace.rules';
    return true;
end
$$;
