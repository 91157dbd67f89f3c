-- One step of a simple table: from the cell before (null: this is the key's first event here) to the cell of this event.
-- p_rows: where the row of the next state begins, by cell; p_start: where the row of the key's state begins.
create or replace function headrace.step_cell(p_cell integer, p_rows integer[], p_start integer, p_symbol integer) returns integer
language plpgsql immutable parallel safe
as $$
begin
    return coalesce(p_rows[p_cell + 1], p_start) + p_symbol;
end
$$;

-- A simple table run over the events of a key: used over (partition by key order by position), it gives the cell of every event.
create or replace aggregate headrace.run_cells(p_rows integer[], p_start integer, p_symbol integer) (
    sfunc = headrace.step_cell, stype = integer, parallel = safe
);

-- Claims the next events of a correlator: those after from_position up to upto. No row when nothing is due, when another session has
-- it, when the topic runs on another engine, or when a version waits for a compiler: an event published after a change does not pass before the change is in force.
-- Locks: the cursor row, no key update, skip locked, until the end of the transaction. Index: log_position backwards.
create or replace function headrace.claim_correlator(p_correlator_id integer, p_max integer)
returns table (consumer_id integer, topic_id integer, version_id bigint, from_position bigint, upto bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_single_to bigint;
begin
    select u.consumer_id, c.topic_id, u.position, u.single_to into consumer_id, topic_id, from_position, v_single_to
    from headrace.correlator_table t
    join headrace.consumer c on c.consumer_id = t.consumer_id
    join headrace.cursor u on u.consumer_id = t.consumer_id and u.partition = -1
    where t.correlator_id = p_correlator_id
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
    for no key update of u skip locked;
    -- Looked at with the cursor in hand: who moves a topic to another engine, or a compiler, may have been here just before.
    if not found or (select t.engine from headrace.topic t where t.topic_id = claim_correlator.topic_id) <> 'database' then
        return;
    end if;
    select t.version_id into version_id
    from headrace.correlator_table t where t.correlator_id = p_correlator_id and not t.halted;
    upto := (
        select least(h.position, from_position + case when v_single_to > from_position then 1 else p_max end)
        from headrace.log_head(topic_id) h);
    if version_id is null or upto is null or upto <= from_position or exists (
        select from headrace.correlator_version v where v.correlator_id = p_correlator_id and v.status = 'pending') then
        return;
    end if;
    return next;
end
$$;

-- The newest p_max of the positions.
create or replace function headrace.newest(p_positions bigint[], p_max integer) returns bigint[]
language sql immutable parallel safe
as $$
    select p_positions[greatest(cardinality(p_positions) - p_max + 1, 1):]
$$;

-- Runs a correlator with a simple table over its next events: one batch, one transaction, with instances, outputs and the cursor.
-- Returns how many events were passed and how many tokens pushed; no row when nothing is due.
-- The events are sorted by key and position once; a key's own state is looked up at its first event only; the window aggregate gives
-- every event its cell, from which all else is read. Positions come to the arrays as the window sorted them, so that width_bucket
-- finds its way in them. Locks: the cursor row. Indexes: log_position, correlator_instance_pkey.
create or replace function headrace.correlate(p_correlator_id integer, p_max integer default 100000)
returns table (events bigint, outputs bigint, "position" bigint)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashagg = off
set jit = off
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
    v_claim record;
    v_table record;
    v_rows  integer[];
    v_marks integer[];
    v_out   record;
begin
    select c.consumer_id, c.version_id, c.from_position, c.upto into v_claim
    from headrace.claim_correlator(p_correlator_id, p_max) c;
    if not found then
        return;
    end if;
    select t.symbols, t.idle, t.rows, t.marks, t.tokens, v.evidence_max, v.forget_after is not null as forgets into v_table
    from headrace.correlator_table t
    join headrace.correlator_version v on v.version_id = t.version_id
    where t.correlator_id = p_correlator_id and t.simple;
    if not found then
        -- It was changed just now, and is stepped by a node from here on.
        return;
    end if;
    -- As variables: an array that is handed to the aggregate from here is not copied at every step.
    v_rows := v_table.rows;
    v_marks := v_table.marks;
    execute format($statement$
        with stepped as (
            select e.key, e.position, e.appended_at,
                headrace.run_cells($1, e.start, e.symbol) over (partition by e.key order by e.position) as cell
            from (
                select e.key, e.position, e.appended_at, e.symbol,
                    case when row_number() over (partition by e.key order by e.position) = 1 then coalesce((
                        select i.units[1] * $3 from headrace.correlator_instance i where i.correlator_id = $4 and i.key = e.key), 0)
                    end as start
                from (
                    -- By code point: sorting by a language's rules takes twice as long.
                    select e.key collate "C" as key, e.position, e.appended_at, e.symbol
                    from headrace.%1$I($5, $6) e
                    -- What cannot move any state is not sorted either; but it counts where keys are forgotten.
                    where e.key is not null and ($8 or e.symbol <> all ($7))
                ) e
            ) e
        ), marked as (
            select s.key, s.position, s.appended_at, s.position * 1048576 + s.cell as place, ($2)[s.cell + 1] as mark from stepped s
        ), by_key as (
            select m.key, max(m.place) as last, min(m.appended_at) as started_at, max(m.appended_at) as seen_at,
                array_agg(m.position) filter (where m.mark & 1 <> 0) as moved,
                array_agg(m.position) filter (where m.mark & 2 <> 0) as starts,
                array_agg(m.place) filter (where m.mark > 3) as fired
            from marked m group by m.key
        ), told as materialized (
            select k.key, k.last, k.started_at, k.seen_at, coalesce(k.moved, '{}') as moved, k.starts, k.fired, coalesce(i.evidence, '{}') as evidence,
                coalesce(i.evidence_total, 0) as evidence_total
            from by_key k
            left join lateral (
                select i.evidence, i.evidence_total from headrace.correlator_instance i
                where i.correlator_id = $4 and i.key = k.key offset 0
            ) i on true
            where k.moved is not null or $8
        ), kept as (
            insert into headrace.correlator_instance (correlator_id, key, units, started_at, seen_at, evidence, evidence_total)
            select $4, k.key, array[($1)[(k.last & 1048575) + 1] / $3], k.started_at, k.seen_at, headrace.newest(e.evidence, $9),
                cardinality(e.evidence) + case when k.starts is null then k.evidence_total - cardinality(k.evidence) else 0 end
            from told k
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
            array_agg(headrace.newest(o.evidence, $9)::text order by o.position, o.n) as evidence,
            array_agg(o.total order by o.position, o.n) as totals
        from (
            select k.key, f.place >> 20 as position, t.token, t.n, e.evidence,
                cardinality(e.evidence) + case when f.began = 0 then k.evidence_total - cardinality(k.evidence) else 0 end as total
            from told k
            cross join lateral (
                -- How many starts came before it in this batch: its evidence begins after the last of them.
                select f.place, coalesce(width_bucket((f.place >> 20) - 1, k.starts), 0) as began from unnest(k.fired) f (place)
            ) f
            cross join lateral (
                select case when f.began = 0 then k.evidence || k.moved[:width_bucket(f.place >> 20, k.moved)]
                    else k.moved[width_bucket(k.starts[f.began], k.moved) + 1:width_bucket(f.place >> 20, k.moved)] end as evidence
            ) e
            cross join lateral jsonb_array_elements_text($10 -> (($2)[(f.place & 1048575) + 1] >> 2)) with ordinality t (token, n)
            where k.fired is not null
        ) o
    $statement$, 'symbols_' || p_correlator_id)
    into v_out
    using v_rows, v_marks, v_table.symbols, p_correlator_id, v_claim.from_position, v_claim.upto, v_table.idle, v_table.forgets,
        v_table.evidence_max, v_table.tokens;
    outputs := 0;
    if v_out.keys is not null then
        outputs := headrace.deliver_correlations(v_claim.version_id, v_out.keys, v_out.positions, null, v_out.tokens, v_out.places,
            v_out.evidence, v_out.totals);
    end if;
    perform headrace.advance(v_claim.consumer_id, -1, v_claim.upto);
    events := v_claim.upto - v_claim.from_position;
    position := v_claim.upto;
    return next;
end
$$;
