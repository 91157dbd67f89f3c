-- Whether events are handled, by a consumer and by a pipeline.
select exists (select from headrace_prove.consumed c where c.consumer = 'ledger') as consumed,
    exists (select from headrace_internal.pipeline_batch) as piped;
