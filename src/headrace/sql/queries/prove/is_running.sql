-- Whether a consumer and a pipeline have handled events.
select exists (select from headrace_prove.consumed c where c.consumer = 'ledger') as consumed,
    exists (select from headrace_internal.pipeline_batch) as has_pipeline_batch;
