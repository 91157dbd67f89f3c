-- Begins the compilation of a correlator's pending versions: locks its cursor, so that no batch runs meanwhile, and returns its
-- position, after which the new version starts. Null for a correlator without a consumer (dropped, or not active before).
-- Locks: the cursor row; it waits for a running batch.
-- Calls: create_internal_consumer.
create or replace function headrace_internal.begin_correlator(p_correlator_id integer) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_position bigint;
begin
    perform headrace_internal.create_internal_consumer(c.topic_id, 'headrace.correlator.' || c.correlator)
    from headrace_internal.correlator c where c.correlator_id = p_correlator_id and c.active;
    select u.position into v_position
    from headrace_internal.correlator k
    join headrace_internal.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where k.correlator_id = p_correlator_id
    for no key update of u;
    return v_position;
end
$$;

-- Ends the active version at a position, in the transaction that began the compilation.
create or replace function headrace_internal.end_correlator_version(p_correlator_id integer, p_position bigint) returns void
language sql volatile
as $$
    update headrace_internal.correlator_version v set until_position = p_position, until_at = headrace.clock()
    where v.correlator_id = p_correlator_id and v.since_position is not null and v.until_at is null
$$;

-- Activates a compiled version after a position, in the transaction that began the compilation.
-- p_table: {compiled, classifier, simple, symbols, rows, marks, idle, tokens}.
-- Calls: end_correlator_version.
create or replace function headrace_internal.start_correlator(
    p_version_id bigint,
    p_position   bigint,
    p_canonical  text,
    p_warning    text,
    p_table      jsonb,
    p_carried    bigint,
    p_restarted  bigint
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Stops a correlator whose newest version is invalid. Its keys keep their state until there is a valid version.
-- Calls: end_correlator_version.
create or replace function headrace_internal.halt_correlator(p_correlator_id integer, p_position bigint) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.end_correlator_version(p_correlator_id, p_position);
    update headrace_internal.correlator_table t set halted = true where t.correlator_id = p_correlator_id
$$;

-- Removes the keys, the table and, unless it is still needed, the consumer of a correlator that is dropped or not active.
-- Calls: end_correlator_version, unwatch.
create or replace function headrace_internal.retire_correlator(p_correlator_id integer, p_position bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.end_correlator_version(p_correlator_id, p_position);
    delete from headrace_internal.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id;
    perform headrace_internal.unwatch(k.topic_id, 'headrace.correlator.' || k.correlator)
    from headrace_internal.correlator k where k.correlator_id = p_correlator_id;
end
$$;

-- Marks a version that does not become active: invalid (with its error), not active, already replaced, or a deletion.
create or replace function headrace_internal.mark_correlator(
    p_version_id bigint, p_error text, p_canonical text, p_warning text
) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    update headrace_internal.correlator_version v
    set status = case when p_error is null then 'valid' else 'invalid' end, error = p_error, canonical = p_canonical, warning = p_warning
    where v.version_id = p_version_id
$$;
