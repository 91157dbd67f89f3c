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
