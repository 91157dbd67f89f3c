-- Writes instances of a correlator as an engine has left them: one entry per key in each array; units, deadlines (microseconds)
-- and evidence as array literals, memory as JSON (null: without registers). Runs in the transaction that also delivers the outputs and moves the cursor. Index:
-- correlator_instance_pkey.
create or replace function headrace_internal.write_instances(
    p_correlator_id integer,
    p_keys       text[],
    p_units      text[],
    p_deadlines  text[],
    p_started_at timestamptz[],
    p_seen_at    timestamptz[],
    p_evidence   text[],
    p_totals     integer[],
    p_memory     text[] default null
) returns void
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
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
