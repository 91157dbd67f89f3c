-- Activates a compiled version after a position, in the transaction that began the compilation.
-- p_table: {compiled, classifier, simple, symbols, rows, marks, idle, tokens}.
create or replace function headrace_internal.start_correlator(
    p_version_id bigint,
    p_position   bigint,
    p_canonical  text,
    p_warning    text,
    p_table      jsonb,
    p_carried    bigint,
    p_restarted  bigint
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_version record;
begin
    select v.correlator_id, v.correlator, v.topic_id into v_version
    from headrace_internal.correlator_version v where v.version_id = p_version_id;
    perform headrace_internal.end_correlator_version(v_version.correlator_id, p_position);
    update headrace_internal.correlator_version v
    set status = 'valid', error = null, canonical = p_canonical, warning = p_warning, since_position = p_position + 1,
        since_at = headrace.clock(), carried = p_carried, restarted = p_restarted
    where v.version_id = p_version_id;
    insert into headrace_internal.correlator_table
        (correlator_id, version_id, consumer_id, compiled, classifier, simple, symbols, rows, marks, idle, tokens)
    select v_version.correlator_id, p_version_id, c.consumer_id, t.compiled, t.classifier, t.simple, t.symbols, t.rows, t.marks, t.idle, t.tokens
    from headrace_internal.consumer c
    cross join jsonb_to_record(p_table) t (compiled text, classifier text, simple boolean, symbols integer, rows integer[], marks integer[],
        idle integer[], tokens jsonb)
    where c.topic_id = v_version.topic_id and c.consumer = 'headrace.correlator.' || v_version.correlator
    on conflict on constraint correlator_table_pkey do update
    set version_id = excluded.version_id, consumer_id = excluded.consumer_id, compiled = excluded.compiled,
        classifier = excluded.classifier, simple = excluded.simple,
        halted = false, symbols = excluded.symbols, rows = excluded.rows, marks = excluded.marks, idle = excluded.idle,
        tokens = excluded.tokens;
end
$$;
