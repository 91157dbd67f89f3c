-- Whether everything has been compiled and every consumer, rules and correlators included, has handled events, if its topic has any; and
-- whether a pipeline has. Indexes: log_position backwards, cursor_pkey.
select not exists (select from headrace_internal.correlator c where c.status = 'pending' and c.namespace = 'default')
    and exists (select from headrace_prove.consumed c where c.consumer = 'ledger')
    and not exists (
        select from headrace_internal.consumer c
        join headrace_internal.topic t on t.topic_id = c.topic_id and t.engine = 'database' and t.namespace = 'default'
        cross join lateral headrace.log_head(t.topic_id) h
        where h.position > 0
            and not exists (select from headrace_internal.cursor u where u.consumer_id = c.consumer_id and u.position > 0)) as consumes,
    exists (select from headrace_internal.pipeline_batch) as has_pipeline_batch;
