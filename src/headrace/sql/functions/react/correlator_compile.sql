-- Begins the compilation of a correlator's pending versions: its cursor is held, so no batch runs meanwhile, and its position is what
-- the new version starts after. Null for one without a consumer (dropped, or not active before).
-- Locks: the cursor row; it waits for a running batch.
create or replace function headrace.begin_correlator(p_correlator_id integer) returns bigint
language plpgsql volatile
as $$
declare
    v_position bigint;
begin
    perform headrace.watch_correlator(c.topic_id, c.correlator)
    from headrace.correlator c where c.correlator_id = p_correlator_id and c.active;
    select u.position into v_position
    from headrace.correlator k
    join headrace.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
    join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where k.correlator_id = p_correlator_id
    for no key update of u;
    return v_position;
end
$$;

-- Ends the version in force at a position, in the transaction that began the compilation.
create or replace function headrace.end_correlator_version(p_correlator_id integer, p_position bigint) returns void
language sql volatile
as $$
    update headrace.correlator_version v set until_position = p_position, until_at = headrace.clock()
    where v.correlator_id = p_correlator_id and v.since_position is not null and v.until_at is null
$$;

-- Marks a version that does not come into force: invalid (its error is given), not active, replaced already, or a deletion.
create or replace function headrace.mark_correlator(p_version_id bigint, p_error text, p_canonical text, p_warning text) returns void
language sql volatile
as $$
    update headrace.correlator_version v
    set status = case when p_error is null then 'valid' else 'invalid' end, error = p_error, canonical = p_canonical, warning = p_warning
    where v.version_id = p_version_id
$$;

-- An invalid newest version: what ran stops, and its keys stay where they are until there is a valid one.
create or replace function headrace.halt_correlator(p_correlator_id integer, p_position bigint) returns void
language sql volatile
as $$
    select headrace.end_correlator_version(p_correlator_id, p_position);
    update headrace.correlator_table t set halted = true where t.correlator_id = p_correlator_id
$$;

-- A correlator that is not active, or is gone: it has no consumer that holds the log back, no keys and no function.
create or replace function headrace.retire_correlator(p_correlator_id integer, p_position bigint) returns void
language plpgsql volatile
as $$
begin
    perform headrace.end_correlator_version(p_correlator_id, p_position);
    delete from headrace.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace.correlator_table t where t.correlator_id = p_correlator_id;
    delete from headrace.consumer c using headrace.correlator k
    where k.correlator_id = p_correlator_id and c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator;
    perform headrace.drop_symbols(p_correlator_id);
end
$$;

-- Carries the instances of a correlator over to another table: units p_old[i] become p_new[i], and new timer j goes on from the old
-- timer p_timers[j] (from 0; null: it does not run). The others are deleted, and start afresh with their next event.
create or replace function headrace.carry_instances(p_correlator_id integer, p_old text[], p_new text[], p_timers integer[])
returns table (carried bigint, restarted bigint)
language plpgsql volatile
as $$
begin
    select count(*) into restarted from headrace.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace.correlator_instance i
    where i.correlator_id = p_correlator_id and i.units <> all (select o.units::integer[] from unnest(p_old) o (units));
    update headrace.correlator_instance i
    set units = m.new_units::integer[], deadlines = coalesce((
        select array_agg(i.deadlines[t.timer + 1] order by t.place) from unnest(p_timers) with ordinality t (timer, place)), '{}')
    from unnest(p_old, p_new) m (old_units, new_units)
    where i.correlator_id = p_correlator_id and i.units = m.old_units::integer[];
    get diagnostics carried = row_count;
    restarted := restarted - carried;
    return next;
end
$$;

-- Puts a compiled version into force after a position, in the transaction that began the compilation.
-- p_table: {compiled, simple, symbols, rows, marks, idle, tokens}.
create or replace function headrace.start_correlator(
    p_version_id bigint,
    p_position   bigint,
    p_canonical  text,
    p_warning    text,
    p_table      jsonb,
    p_carried    bigint,
    p_restarted  bigint
) returns void
language plpgsql volatile
as $$
declare
    v_version record;
begin
    select v.correlator_id, v.correlator, v.topic_id into v_version
    from headrace.correlator_version v where v.version_id = p_version_id;
    perform headrace.end_correlator_version(v_version.correlator_id, p_position);
    update headrace.correlator_version v
    set status = 'valid', error = null, canonical = p_canonical, warning = p_warning, since_position = p_position + 1,
        since_at = headrace.clock(), carried = p_carried, restarted = p_restarted
    where v.version_id = p_version_id;
    insert into headrace.correlator_table
        (correlator_id, version_id, consumer_id, compiled, simple, symbols, rows, marks, idle, tokens)
    select v_version.correlator_id, p_version_id, c.consumer_id, t.compiled, t.simple, t.symbols, t.rows, t.marks, t.idle, t.tokens
    from headrace.consumer c
    cross join jsonb_to_record(p_table) t (compiled text, simple boolean, symbols integer, rows integer[], marks integer[],
        idle integer[], tokens jsonb)
    where c.topic_id = v_version.topic_id and c.consumer = 'headrace.correlator.' || v_version.correlator
    on conflict on constraint correlator_table_pkey do update
    set version_id = excluded.version_id, consumer_id = excluded.consumer_id, compiled = excluded.compiled, simple = excluded.simple,
        halted = false, symbols = excluded.symbols, rows = excluded.rows, marks = excluded.marks, idle = excluded.idle,
        tokens = excluded.tokens;
end
$$;

-- Shows the outcome of compilations in headrace.correlator. A row that its writer still holds is left for the next time.
-- Locks: correlator rows, no key update, skip locked. Index: correlator_pending.
create or replace function headrace.show_correlator_status() returns integer
language plpgsql volatile
as $$
declare
    v_shown integer;
begin
    update headrace.correlator c
    set status = v.status, error = v.error, since_position = v.since_position
    from headrace.correlator_version v
    where v.correlator_id = c.correlator_id and v.version = c.version and v.status <> 'pending'
        and c.correlator_id in (
            select p.correlator_id from headrace.correlator p where p.status = 'pending' for no key update skip locked);
    get diagnostics v_shown = row_count;
    return v_shown;
end
$$;

-- Drops a correlator's classifying function, if it has one.
create or replace function headrace.drop_symbols(p_correlator_id integer) returns void
language plpgsql volatile
as $$
declare
    v_function text := format('headrace.%I(bigint, bigint)', 'symbols_' || p_correlator_id);
begin
    if to_regprocedure(v_function) is not null then
        execute format('drop function %s', v_function);
    end if;
end
$$;
