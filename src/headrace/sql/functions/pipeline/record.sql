-- A process begins to run a topic on Spark.
create or replace function headrace.begin_pipeline(p_topic_id integer, p_run_id uuid, p_process text, p_master text) returns void
language sql volatile
as $$
    insert into headrace.pipeline (topic_id, run_id, process, master) values (p_topic_id, p_run_id, p_process, p_master)
    on conflict on constraint pipeline_pkey do update
    set run_id = excluded.run_id, process = excluded.process, master = excluded.master, started_at = headrace.clock(),
        heartbeat_at = headrace.clock(), stopped_at = null, error = null
$$;

-- A sign of life, with the error of the last attempt if it had one; with p_stopped the last one. Not of a run that another followed.
create or replace function headrace.beat_pipeline(p_topic_id integer, p_run_id uuid, p_error text, p_stopped boolean) returns void
language sql volatile
as $$
    update headrace.pipeline p
    set heartbeat_at = headrace.clock(), error = left(p_error, 10000), stopped_at = case when p_stopped then headrace.clock() end
    where p.topic_id = p_topic_id and p.run_id = p_run_id
$$;

-- Writes a batch into the ledger, in the transaction that has done it, and forgets what is a thousand batches back.
-- Locks: the pipeline's row. Index: pipeline_batch_pkey.
create or replace function headrace.record_pipeline_batch(
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
    update headrace.pipeline p
    set batches = p.batches + 1, events = p.events + p_upto - p_from_position, firings = p.firings + p_firings,
        outputs = p.outputs + p_outputs, heartbeat_at = headrace.clock(), error = null
    where p.topic_id = p_topic_id
    returning p.batches into v_batch;
    insert into headrace.pipeline_batch (topic_id, batch, run_id, from_position, upto, firings, outputs, timers, took_ms)
    values (p_topic_id, v_batch, p_run_id, p_from_position, p_upto, p_firings, p_outputs, p_timers, p_took_ms);
    delete from headrace.pipeline_batch b where b.topic_id = p_topic_id and b.batch <= v_batch - 1000;
    return v_batch;
end
$$;
