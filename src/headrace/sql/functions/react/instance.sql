-- Writes instances of a correlator as an engine has left them: one entry per key in each array. Units, deadlines (microseconds) and
-- evidence as array literals. In the transaction that also delivers the outputs and moves the cursor.
-- Index: correlator_instance_pkey.
create or replace function headrace.write_instances(
    p_correlator_id integer,
    p_keys       text[],
    p_units      text[],
    p_deadlines  text[],
    p_started_at timestamptz[],
    p_seen_at    timestamptz[],
    p_evidence   text[],
    p_totals     integer[]
) returns void
language sql volatile
as $$
    insert into headrace.correlator_instance
        (correlator_id, key, units, deadlines, deadline, started_at, seen_at, evidence, evidence_total)
    select p_correlator_id, w.key, w.units::integer[], w.deadlines::bigint[],
        case when w.deadlines <> '{}' then (
            select timestamptz 'epoch' + min(u.us) * interval '1 microsecond' from unnest(w.deadlines::bigint[]) u (us)) end,
        w.started_at, w.seen_at, w.evidence::bigint[], w.total
    from unnest(p_keys, p_units, p_deadlines, p_started_at, p_seen_at, p_evidence, p_totals)
        w (key, units, deadlines, started_at, seen_at, evidence, total)
    order by w.key collate "C"
    on conflict on constraint correlator_instance_pkey do update
    set units = excluded.units, deadlines = excluded.deadlines, deadline = excluded.deadline, started_at = excluded.started_at,
        seen_at = excluded.seen_at, evidence = excluded.evidence, evidence_total = excluded.evidence_total
$$;

-- Fixes the time of a topic: no event that gets its position after this has an earlier time. Then every event of an earlier time is
-- in the log for all to see, and a timer that is due by then may fire once those are passed. Null when a sequencer has the topic.
-- A topic whose time is that of its events goes no further than its newest one.
-- Call it in a transaction of its own. Locks: the topic row, no key update, skip locked.
create or replace function headrace.settle_time(p_topic_id integer) returns timestamptz
language sql volatile
as $$
    update headrace.topic t set timers_to = greatest(t.timers_to, headrace.log_clock(t.topic_id))
    where t.topic_id in (select s.topic_id from headrace.topic s where s.topic_id = p_topic_id for no key update skip locked)
    returning t.timers_to
$$;

-- Claims a correlator to fire its timers due by a settled time. No row when another session has it, when the topic does not run on
-- the engine that asks, when a version waits for a compiler, or when events from before that time have not been passed yet. Locks: the cursor row, no key update, skip locked.
create or replace function headrace.claim_timers(p_correlator_id integer, p_settled timestamptz, p_engine text default 'database')
returns table (version_id bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_cursor record;
    v_next   timestamptz;
begin
    select c.topic_id, u.position into v_cursor
    from headrace.correlator_table t
    join headrace.consumer c on c.consumer_id = t.consumer_id
    join headrace.cursor u on u.consumer_id = t.consumer_id and u.partition = -1
    where t.correlator_id = p_correlator_id
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
    for no key update of u skip locked;
    if not found or (select t.engine from headrace.topic t where t.topic_id = v_cursor.topic_id) <> p_engine then
        return;
    end if;
    select t.version_id into version_id
    from headrace.correlator_table t where t.correlator_id = p_correlator_id and not t.halted;
    select l.appended_at into v_next
    from headrace.log l where l.topic_id = v_cursor.topic_id and l.position > v_cursor.position order by l.position limit 1;
    if version_id is null or v_next < p_settled or exists (
        select from headrace.correlator_version v where v.correlator_id = p_correlator_id and v.status = 'pending') then
        return;
    end if;
    return next;
end
$$;

-- Forgets keys that had no event for their correlator's forget_after. A call looks at p_max keys of each correlator and goes on where
-- the last one ended, round and round. Returns how many it forgot.
-- No index leads to the old ones: seen_at changes with every batch of a key, so an index on it would cost each of these updates its
-- place on the page (HOT) and an entry in every index. Index: correlator_instance_pkey, whatever the statistics say.
-- Locks: the rows of correlator_table, no key update, skip locked: another node is at it; and, only where there is a key to forget,
-- the cursor row, no key update, skip locked: a correlator at work is left for the next time.
create or replace function headrace.forget_instances(p_max integer default 100000) returns bigint
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_correlator record;
    v_before     timestamptz;
    v_looked     record;
    v_forgotten  bigint := 0;
    v_count      bigint;
begin
    for v_correlator in
        select t.correlator_id, t.consumer_id, t.forget_from, v.topic_id, v.forget_after
        from headrace.correlator_table t
        join headrace.correlator_version v on v.version_id = t.version_id
        where v.forget_after is not null
        order by t.correlator_id
        for no key update of t skip locked
    loop
        v_before := headrace.log_clock(v_correlator.topic_id) - v_correlator.forget_after;
        -- One key more: there the next call begins.
        select array_agg(o.ctid) filter (where o.seen_at < v_before) as old, case when count(*) > p_max then max(o.key) else '' end as next
        into v_looked
        from (
            select i.ctid, i.key, i.seen_at from headrace.correlator_instance i
            where i.correlator_id = v_correlator.correlator_id and i.key >= v_correlator.forget_from
            order by i.key limit p_max + 1
        ) o;
        if v_looked.old is not null then
            perform from headrace.cursor u
            where u.consumer_id = v_correlator.consumer_id and u.partition = -1 for no key update skip locked;
            continue when not found;
            -- By its place, which is nobody else's as long as our snapshot is held: one that had an event meanwhile has left it.
            delete from headrace.correlator_instance i where i.ctid = any (v_looked.old) and i.seen_at < v_before;
            get diagnostics v_count = row_count;
            v_forgotten := v_forgotten + v_count;
        end if;
        update headrace.correlator_table t set forget_from = v_looked.next
        where t.correlator_id = v_correlator.correlator_id and t.forget_from <> v_looked.next;
    end loop;
    return v_forgotten;
end
$$;
