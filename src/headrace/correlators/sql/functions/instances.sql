-- Moves the instances of a correlator to a new table: units p_old[i] become p_new[i], and new timer j continues old timer
-- p_timers[j] (from 0; null: it does not run). All other instances are deleted and start again with their next event.
create or replace function headrace_internal.carry_instances(p_correlator_id bigint, p_old text[], p_new text[], p_timers integer[])
returns table (carried bigint, restarted bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    select count(*) into restarted from headrace_internal.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace_internal.correlator_instance i
    where i.correlator_id = p_correlator_id and i.units <> all (select o.units::integer[] from unnest(p_old) o (units));
    update headrace_internal.correlator_instance i
    set units = m.new_units::integer[], deadlines = coalesce((
        select array_agg(i.deadlines[t.timer + 1] order by t.place) from unnest(p_timers) with ordinality t (timer, place)), '{}')
    from unnest(p_old, p_new) m (old_units, new_units)
    where i.correlator_id = p_correlator_id and i.units = m.old_units::integer[];
    get diagnostics carried = row_count;
    restarted := restarted - carried;
    return next;
end
$$;

-- Writes instances of a correlator as an engine has left them: one entry per key in each array; units, deadlines (microseconds)
-- and evidence as array literals, memory as JSON (null: without registers). Runs in the transaction that also delivers the outputs and moves the cursor. Index:
-- correlator_instance_pkey.
create or replace function headrace_internal.write_instances(
    p_correlator_id bigint,
    p_keys       text[],
    p_units      text[],
    p_deadlines  text[],
    p_started_at timestamptz[],
    p_seen_at    timestamptz[],
    p_evidence   text[],
    p_totals     integer[],
    p_memory     text[] default null
) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    insert into headrace_internal.correlator_instance
        (correlator_id, key, units, deadlines, deadline, started_at, seen_at, evidence, evidence_total, memory)
    select p_correlator_id, w.key, w.units::integer[], w.deadlines::bigint[],
        case when w.deadlines <> '{}' then (
            select timestamptz 'epoch' + min(u.us) * interval '1 microsecond' from unnest(w.deadlines::bigint[]) u (us)) end,
        w.started_at, w.seen_at, w.evidence::bigint[], w.total, w.memory
    from unnest(p_keys, p_units, p_deadlines, p_started_at, p_seen_at, p_evidence, p_totals, p_memory)
        w (key, units, deadlines, started_at, seen_at, evidence, total, memory)
    order by w.key collate "C"
    on conflict on constraint correlator_instance_pkey do update
    set units = excluded.units, deadlines = excluded.deadlines, deadline = excluded.deadline, started_at = excluded.started_at,
        seen_at = excluded.seen_at, evidence = excluded.evidence, evidence_total = excluded.evidence_total,
        memory = excluded.memory
$$;

-- Fixes the time of a topic: no event that gets its position later has an earlier time. Every event of an earlier time is then visible in
-- the log, and a timer due by then may fire once these events are passed. Null when a sequencer holds the topic. A topic on the events'
-- clock goes no further than its newest event. Call it in a transaction of its own. Locks: the topic row, no key update, skip locked.
-- Calls: log_clock.
create or replace function headrace_internal.settle_time(p_topic_id integer) returns timestamptz
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    update headrace_internal.topic t set timers_to = greatest(t.timers_to, headrace.log_clock(t.topic_id))
    where t.topic_id in (select s.topic_id from headrace_internal.topic s where s.topic_id = p_topic_id for no key update skip locked)
    returning t.timers_to
$$;

-- Deletes keys that had no event for their correlator's forget_after. A call checks p_max keys of each correlator and continues
-- where the last call ended, in a circle. Returns the number of deleted keys.
-- No index leads to the old ones: seen_at changes with every batch of a key, so an index on it would cost each of these updates
-- its place on the page (HOT) and an entry in every index. Index: correlator_instance_pkey, whatever the statistics say.
-- Locks: the rows of correlator_table, no key update, skip locked (another node is doing the same); and, only if there is a key to
-- delete, the cursor row, no key update, skip locked: a correlator with a running batch is left for the next call.
-- Calls: log_clock.
create or replace function headrace_internal.forget_instances(p_max integer default 100000) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_correlator record;
    v_before     timestamptz;
    v_keys       record;
    v_forgotten  bigint := 0;
    v_count      bigint;
begin
    for v_correlator in
        select t.correlator_id, t.consumer_id, t.forget_from, v.topic_id, v.forget_after
        from headrace_internal.correlator_table t
        join headrace_internal.correlator_version v on v.version_id = t.version_id
        where v.forget_after is not null
        order by t.correlator_id
        for no key update of t skip locked
    loop
        v_before := headrace.log_clock(v_correlator.topic_id) - v_correlator.forget_after;
        -- One more key: the next call starts there.
        select array_agg(o.ctid) filter (where o.seen_at < v_before) as old, case when count(*) > p_max then max(o.key) else '' end as next
        into v_keys
        from (
            select i.ctid, i.key, i.seen_at from headrace_internal.correlator_instance i
            where i.correlator_id = v_correlator.correlator_id and i.key >= v_correlator.forget_from
            order by i.key limit p_max + 1
        ) o;
        if v_keys.old is not null then
            perform from headrace_internal.cursor u
            where u.consumer_id = v_correlator.consumer_id and u.partition = -1 for no key update skip locked;
            continue when not found;
            -- Look it up by ctid: a row updated meanwhile has a new ctid and is skipped.
            delete from headrace_internal.correlator_instance i where i.ctid = any (v_keys.old) and i.seen_at < v_before;
            get diagnostics v_count = row_count;
            v_forgotten := v_forgotten + v_count;
        end if;
        update headrace_internal.correlator_table t set forget_from = v_keys.next
        where t.correlator_id = v_correlator.correlator_id and t.forget_from <> v_keys.next;
    end loop;
    return v_forgotten;
end
$$;
