-- Writes a batch into the ledger.
select headrace_internal.record_pipeline_batch(%(topic_id)s, %(run_id)s, %(from_position)s, %(upto)s, %(firings)s, %(outputs)s, %(timers)s,
    %(took_ms)s);
