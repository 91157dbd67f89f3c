-- Sets where the rules and correlators of a topic run: 'database' or 'spark'. It waits for the running batch of either engine; the
-- other engine continues from the cursors and the correlators' rows. Returns false if nothing changed.
-- Locks: the topic row, then the cursors of the topic's rules and correlators, both no key update: the order of the sequencer and of
-- headrace.erase_key. Nothing of the topic is sequenced while it waits for a batch.
-- Calls: topic_id, notify.
create or replace function headrace.set_engine(
    p_topic text, p_engine text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic_id  integer := headrace.topic_id(p_topic, v_namespace);
begin
    if p_engine is null or p_engine not in ('database', 'spark') then
        raise exception 'there is no engine "%"', p_engine
            using errcode = 'HR300', hint = 'Rules and correlators run in the ''database'' or on ''spark''.';
    end if;
    update headrace_internal.topic t set engine = p_engine where t.topic_id = v_topic_id and t.engine <> p_engine;
    if not found then
        return false;
    end if;
    perform u.position
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id
    where c.topic_id = v_topic_id and starts_with(c.consumer, 'headrace.')
    order by u.consumer_id
    for no key update of u;
    -- The engine that takes over does not wait for the next event.
    perform headrace_internal.notify('headrace_log', v_topic_id::text);
    return true;
end
$$;

-- Records that a process starts to run a topic on Spark.
create or replace function headrace_internal.begin_pipeline(p_topic_id integer, p_run_id uuid, p_process text, p_master text) returns void
language sql volatile
as $$
    insert into headrace_internal.pipeline (topic_id, run_id, process, master) values (p_topic_id, p_run_id, p_process, p_master)
    on conflict on constraint pipeline_pkey do update
    set run_id = excluded.run_id, process = excluded.process, master = excluded.master, started_at = headrace.clock(),
        heartbeat_at = headrace.clock(), stopped_at = null, error = null
$$;

-- Records a pipeline's heartbeat, with the error of the last attempt if there was one; p_stopped marks the last heartbeat. A run that
-- another run has replaced changes nothing.
create or replace function headrace_internal.beat_pipeline(p_topic_id integer, p_run_id uuid, p_error text, p_stopped boolean) returns void
language sql volatile
as $$
    update headrace_internal.pipeline p
    set heartbeat_at = headrace.clock(), error = left(p_error, 10000), stopped_at = case when p_stopped then headrace.clock() end
    where p.topic_id = p_topic_id and p.run_id = p_run_id
$$;

-- Records a batch in the ledger, in the transaction of the batch, and deletes entries older than a thousand batches.
-- Locks: the pipeline's row. Index: pipeline_batch_pkey.
create or replace function headrace_internal.record_pipeline_batch(
    p_topic_id      integer,
    p_run_id        uuid,
    p_from_position bigint,
    p_upto          bigint,
    p_firings       bigint,
    p_outputs       bigint,
    p_timers        bigint,
    p_took_ms       double precision
) returns bigint
language plpgsql volatile
as $$
declare
    v_batch bigint;
begin
    update headrace_internal.pipeline p
    set batches = p.batches + 1, events = p.events + p_upto - p_from_position, firings = p.firings + p_firings,
        outputs = p.outputs + p_outputs, heartbeat_at = headrace.clock(), error = null
    where p.topic_id = p_topic_id
    returning p.batches into v_batch;
    insert into headrace_internal.pipeline_batch (topic_id, batch, run_id, from_position, upto, firings, outputs, timers, took_ms)
    values (p_topic_id, v_batch, p_run_id, p_from_position, p_upto, p_firings, p_outputs, p_timers, p_took_ms);
    delete from headrace_internal.pipeline_batch b where b.topic_id = p_topic_id and b.batch <= v_batch - 1000;
    return v_batch;
end
$$;
