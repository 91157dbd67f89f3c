-- Drops a consumer with its cursors and dead letters.
create or replace function headrace.drop_consumer(p_topic text, p_consumer text, p_namespace text default null) returns void
language sql volatile
as $$
    delete from headrace_internal.consumer c where c.consumer_id = headrace_internal.consumer_id(p_topic, p_consumer, p_namespace)
$$;
