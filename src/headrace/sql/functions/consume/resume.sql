-- Lets stopped partitions of a consumer try again where they stand. Returns how many.
create or replace function headrace.resume(p_topic text, p_consumer text, p_namespace text default null) returns integer
language plpgsql volatile
as $$
declare
    v_consumer_id integer := headrace_internal.consumer_id(p_topic, p_consumer, p_namespace);
    v_count       integer;
begin
    update headrace_internal.cursor c set state = 'running', attempts = 0, retry_at = null, error = null
    where c.consumer_id = v_consumer_id and (c.state = 'stopped' or c.retry_at is not null);
    get diagnostics v_count = row_count;
    perform pg_notify('headrace_log', headrace_internal.topic_id(p_topic, p_namespace)::text);
    return v_count;
end
$$;
