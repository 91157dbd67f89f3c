-- One step of a simple table: from the cell before (null: this is the key's first event here) to the cell of this event.
-- p_rows: where the row of the next state begins, by cell; p_start: where the row of the key's state begins.
create or replace function headrace_internal.next_cell(p_cell integer, p_rows integer[], p_start integer, p_symbol integer) returns integer
language plpgsql immutable parallel safe
as $$
begin
    return coalesce(p_rows[p_cell + 1], p_start) + p_symbol;
end
$$;

-- Runs a simple table over the events of a key: over (partition by key order by position) it gives the cell of every event.
create or replace aggregate headrace_internal.run_cells(p_rows integer[], p_start integer, p_symbol integer) (
    sfunc = headrace_internal.next_cell, stype = integer, parallel = safe
);

-- Returns the newest p_max of the positions.
create or replace function headrace_internal.newest(p_positions bigint[], p_max integer) returns bigint[]
language sql immutable parallel safe
as $$
    select p_positions[greatest(cardinality(p_positions) - p_max + 1, 1):]
$$;

-- Claims a correlator: for the events after from_position up to upto, or, with p_settled, to fire its timers that are due by that settled
-- time. No row when nothing is due, when another session holds it, when the topic runs on another engine, or while a version waits for
-- the compiler: an event published after a change does not pass before the change is active. Timers also wait for earlier events. has_more: events
-- may wait behind upto.
-- Locks: the cursor row, no key update, skip locked, until the end of the transaction. Index: log_position.
-- Calls: log_head.
create or replace function headrace_internal.claim_correlator(
    p_correlator_id bigint, p_max integer default null, p_settled timestamptz default null, p_engine text default 'database'
) returns table (consumer_id bigint, topic_id integer, version_id bigint, from_position bigint, upto bigint, has_more boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_single_to bigint;
    v_max       integer;
    v_next      timestamptz;
begin
    select u.consumer_id, c.topic_id, u.position, u.single_to into consumer_id, topic_id, from_position, v_single_to
    from headrace_internal.correlator_table t
    join headrace_internal.consumer c on c.consumer_id = t.consumer_id
    join headrace_internal.cursor u on u.consumer_id = t.consumer_id and u.partition = -1
    where t.correlator_id = p_correlator_id
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
    for no key update of u skip locked;
    -- Checked while the cursor is locked: moving a topic to another engine and compiling lock it as well.
    if not found or (select t.engine from headrace_internal.topic t where t.topic_id = claim_correlator.topic_id) <> p_engine then
        return;
    end if;
    select t.version_id into version_id
    from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id and not t.halted;
    if p_settled is null then
        v_max := case when v_single_to > from_position then 1 else p_max end;
        upto := (select least(h.position, from_position + v_max) from headrace.log_head(topic_id) h);
        has_more := upto = from_position + v_max;
    else
        -- Queries the topic's own branch: a query on the whole log plans and locks every topic.
        execute format('select l.appended_at from headrace_internal.%I l where l.position > $1 order by l.position limit 1',
            'log_' || topic_id) into v_next using from_position;
    end if;
    if version_id is null or v_next < p_settled or p_settled is null and (upto is null or upto <= from_position) or exists (
        select from headrace_internal.correlator_version v where v.correlator_id = p_correlator_id and v.status = 'pending') then
        return;
    end if;
    return next;
end
$$;

-- Returns the events of a batch as a correlator's table sees them, after p_after up to p_upto; without those that have no key.
-- Index: log_position.
create or replace function headrace_internal.read_symbols(p_correlator_id bigint, p_after bigint, p_upto bigint)
returns table ("position" bigint, key text, symbol integer, symbols integer[], appended_at timestamptz, facts text[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_classifier text;
begin
    select t.classifier into strict v_classifier
    from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id;
    return query execute format('select e.position, e.key, e.symbol, e.symbols, e.appended_at, e.facts from (%s) e '
        'where e.key is not null order by e.position', v_classifier) using p_after, p_upto;
end
$$;

-- Runs the simple table of a correlator over the events after p_after up to p_upto, and moves the cursor there. Returns the number of tokens;
-- null, and nothing has happened, if it has no simple table any more. The caller has locked the correlator's cursor, where it stands at p_after.
-- The events are sorted by key and position once; the state of a key is looked up at its first event only; the window aggregate
-- gives every event its cell, from which everything else is read. Positions reach the arrays in the window's order, so that
-- width_bucket can search them. Few events of a small table are stepped by a prepared statement, whose plan costs more than its run.
-- Indexes: log_position, correlator_instance_pkey.
-- Calls: run_cells, newest, execute_prepared, deliver_correlations, advance.
create or replace function headrace_internal.step_simple(p_correlator_id bigint, p_after bigint, p_upto bigint) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashagg = off
set jit = off
set work_mem = '64MB'
set plan_cache_mode = force_generic_plan
as $$
declare
    v_table     record;
    v_rows      integer[];
    v_marks     integer[];
    v_statement text;
    v_out       record;
    v_outputs   integer := 0;
begin
    select t.version_id, t.consumer_id, t.classifier, t.symbols, t.idle, t.rows, t.marks, t.tokens, v.evidence_max, v.forget_after is not null as forgets into v_table
    from headrace_internal.correlator_table t
    join headrace_internal.correlator_version v on v.version_id = t.version_id
    where t.correlator_id = p_correlator_id and t.simple and not t.halted;
    if not found then
        -- It was changed just now, and is stepped by a node from here on.
        return null;
    end if;
    -- As variables: an array that is handed to the aggregate from here is not copied at every step.
    v_rows := v_table.rows;
    v_marks := v_table.marks;
    v_statement := format($statement$
        with stepped as (
            select e.key, e.position, e.appended_at,
                headrace_internal.run_cells($3, e.start, e.symbol) over (partition by e.key order by e.position) as cell
            from (
                select e.key, e.position, e.appended_at, e.symbol,
                    case when row_number() over (partition by e.key order by e.position) = 1 then coalesce((
                        select i.units[1] * $5 from headrace_internal.correlator_instance i where i.correlator_id = $6 and i.key = e.key), 0)
                    end as start
                from (
                    -- By code point: sorting by a language's rules takes twice as long.
                    select e.key collate "C" as key, e.position, e.appended_at, e.symbol
                    from (%s) e
                    -- What cannot move any state is not sorted either; but it counts where keys are forgotten.
                    where e.key is not null and ($8 or e.symbol <> all ($7))
                ) e
            ) e
        ), marked as (
            select s.key, s.position, s.appended_at, s.position * 1048576 + s.cell as place, ($4)[s.cell + 1] as mark from stepped s
        ), by_key as (
            select m.key, max(m.place) as last, min(m.appended_at) as started_at, max(m.appended_at) as seen_at,
                array_agg(m.position) filter (where m.mark & 1 <> 0) as moved,
                array_agg(m.position) filter (where m.mark & 2 <> 0) as starts,
                array_agg(m.place) filter (where m.mark > 3) as fired
            from marked m group by m.key
        ), changed_keys as materialized (
            select k.key, k.last, k.started_at, k.seen_at, coalesce(k.moved, '{}') as moved, k.starts, k.fired, coalesce(i.evidence, '{}') as evidence,
                coalesce(i.evidence_total, 0) as evidence_total
            from by_key k
            left join lateral (
                select i.evidence, i.evidence_total from headrace_internal.correlator_instance i
                where i.correlator_id = $6 and i.key = k.key offset 0
            ) i on true
            where k.moved is not null or $8
        ), kept as (
            insert into headrace_internal.correlator_instance (correlator_id, key, units, started_at, seen_at, evidence, evidence_total)
            select $6, k.key, array[($3)[(k.last & 1048575) + 1] / $5], k.started_at, k.seen_at, headrace_internal.newest(e.evidence, $9),
                cardinality(e.evidence) + case when k.starts is null then k.evidence_total - cardinality(k.evidence) else 0 end
            from changed_keys k
            cross join lateral (
                select case when k.starts is null then k.evidence || k.moved
                    else k.moved[width_bucket(k.starts[cardinality(k.starts)], k.moved) + 1:] end as evidence
            ) e
            on conflict on constraint correlator_instance_pkey do update
            set units = excluded.units, seen_at = excluded.seen_at, evidence = excluded.evidence,
                evidence_total = excluded.evidence_total
        )
        select array_agg(o.key order by o.position, o.n) as keys, array_agg(o.position order by o.position, o.n) as positions,
            array_agg(o.token order by o.position, o.n) as tokens, array_agg(o.n::integer order by o.position, o.n) as places,
            array_agg(headrace_internal.newest(o.evidence, $9)::text order by o.position, o.n) as evidence,
            array_agg(o.total order by o.position, o.n) as totals
        from (
            select k.key, f.place >> 20 as position, t.token, t.n, e.evidence,
                cardinality(e.evidence) + case when f.began = 0 then k.evidence_total - cardinality(k.evidence) else 0 end as total
            from changed_keys k
            cross join lateral (
                -- How many starts came before it in this batch: its evidence begins after the last of them.
                select f.place, coalesce(width_bucket((f.place >> 20) - 1, k.starts), 0) as began from unnest(k.fired) f (place)
            ) f
            cross join lateral (
                select case when f.began = 0 then k.evidence || k.moved[:width_bucket(f.place >> 20, k.moved)]
                    else k.moved[width_bucket(k.starts[f.began], k.moved) + 1:width_bucket(f.place >> 20, k.moved)] end as evidence
            ) e
            cross join lateral jsonb_array_elements_text($10 -> (($4)[(f.place & 1048575) + 1] >> 2)) with ordinality t (token, n)
            where k.fired is not null
        ) o
    $statement$, v_table.classifier);
    if p_upto - p_after <= 100 and cardinality(v_rows) <= 1000 then
        select o.* into v_out
        from headrace_internal.execute_prepared(format('headrace_correlate_%s_%s', v_table.version_id, md5(v_table.classifier)),
            'bigint, bigint, integer[], integer[], integer, bigint, integer[], boolean, integer, jsonb', v_statement,
            format('%s, %s, %L, %L, %s, %s, %L, %L, %s, %L', p_after, p_upto, v_rows, v_marks, v_table.symbols,
                p_correlator_id, v_table.idle, v_table.forgets, v_table.evidence_max, v_table.tokens))
            o (keys text[], positions bigint[], tokens text[], places integer[], evidence text[], totals integer[]);
    else
        execute v_statement into v_out
        using p_after, p_upto, v_rows, v_marks, v_table.symbols, p_correlator_id, v_table.idle, v_table.forgets,
            v_table.evidence_max, v_table.tokens;
    end if;
    if v_out.keys is not null then
        v_outputs := headrace_internal.deliver_correlations(v_table.version_id, v_out.keys, v_out.positions, null, v_out.tokens, v_out.places,
            v_out.evidence, v_out.totals);
    end if;
    perform headrace.advance(v_table.consumer_id, -1, p_upto);
    return v_outputs;
end
$$;

-- Runs a correlator with a simple table over its next events: one batch, one transaction with instances, outputs and cursor.
-- Returns the number of events and of tokens, the position it has reached, and whether more events may wait; no row when nothing is due.
-- Locks: the cursor row. See headrace_internal.claim_correlator and headrace_internal.step_simple.
-- Calls: claim_correlator, step_simple.
create or replace function headrace_internal.correlate(p_correlator_id bigint, p_max integer default 100000)
returns table (events bigint, outputs bigint, "position" bigint, has_more boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_claim record;
begin
    select c.from_position, c.upto, c.has_more into v_claim
    from headrace_internal.claim_correlator(p_correlator_id, p_max) c;
    if not found then
        return;
    end if;
    outputs := headrace_internal.step_simple(p_correlator_id, v_claim.from_position, v_claim.upto);
    if outputs is null then
        return;
    end if;
    events := v_claim.upto - v_claim.from_position;
    position := v_claim.upto;
    has_more := v_claim.has_more;
    return next;
end
$$;

-- Runs a correlator of a topic with a simple table over the events that this transaction has just appended there, those after p_after up to p_upto.
-- Returns the number of tokens; null, and nothing has happened, unless they are what the correlator handles next, as
-- headrace_internal.claim_correlator decides it: then they are left to headrace_internal.correlate. The caller holds the topic's row, so the
-- engine cannot change, and has read it.
-- Locks: the cursor row, no key update, skip locked. Indexes: cursor_pkey, correlator_version_pending.
-- Calls: step_simple.
create or replace function headrace_internal.correlate_at(p_topic_id integer, p_correlator_id bigint, p_after bigint, p_upto bigint)
returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    perform
    from headrace_internal.correlator_table t
    join headrace_internal.consumer c on c.consumer_id = t.consumer_id
    join headrace_internal.cursor u on u.consumer_id = t.consumer_id and u.partition = -1
    where t.correlator_id = p_correlator_id and c.topic_id = p_topic_id
        and u.position = p_after and u.state = 'running' and u.retry_at is null and (u.single_to > u.position) is not true
        and not exists (select from headrace_internal.pause p where p.consumer_id = t.consumer_id)
        and (select v.version_id from headrace_internal.correlator_version v
            where v.correlator_id = p_correlator_id and v.status = 'pending' limit 1) is null
    for no key update of u skip locked;
    -- The table is read while the cursor is locked: a version that was compiled meanwhile begins after p_after.
    return case when found then headrace_internal.step_simple(p_correlator_id, p_after, p_upto) end;
end
$$;
