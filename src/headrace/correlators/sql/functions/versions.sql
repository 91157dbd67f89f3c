-- Activates a compiled version after a position, in the transaction that began the compilation.
-- p_table: {compiled, classifier, simple, symbols, rows, marks, idle, tokens}.
create or replace function headrace_internal.start_correlator(
    p_version_id bigint, p_position bigint, p_canonical text, p_warning text, p_table jsonb, p_carried bigint, p_restarted bigint
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_version record;
begin
    select v.correlator_id, v.correlator, v.topic_id into v_version
    from headrace_internal.correlator_version v where v.version_id = p_version_id;
    update headrace_internal.correlator_version v set until_position = p_position, until_at = headrace.clock()
    where v.correlator_id = v_version.correlator_id and v.since_position is not null and v.until_at is null;
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

-- Ends the active version of a correlator at a position, in the transaction that began the compilation. p_retire: it is dropped or not
-- active, so its keys and its table go, too, and the consumer unless it is still needed. Otherwise its newest version is invalid, and
-- the keys keep their state until there is a valid one.
-- Calls: unwatch.
create or replace function headrace_internal.stop_correlator(p_correlator_id bigint, p_position bigint, p_retire boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    update headrace_internal.correlator_version v set until_position = p_position, until_at = headrace.clock()
    where v.correlator_id = p_correlator_id and v.since_position is not null and v.until_at is null;
    if p_retire then
        delete from headrace_internal.correlator_instance i where i.correlator_id = p_correlator_id;
        delete from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id;
        perform headrace_internal.unwatch(k.topic_id, 'headrace.correlator.' || k.correlator)
        from headrace_internal.correlator k where k.correlator_id = p_correlator_id;
    else
        update headrace_internal.correlator_table t set halted = true where t.correlator_id = p_correlator_id;
    end if;
end
$$;
