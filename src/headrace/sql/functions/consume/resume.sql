-- Lets stopped partitions of a consumer try again at their position. Returns how many.
create or replace function headrace.resume(
    p_topic text, p_consumer text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id integer := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_count       integer;
begin
    update headrace_internal.cursor c set state = 'running', attempts = 0, retry_at = null, error = null, traceback = null
    where c.consumer_id = v_consumer_id and (c.state = 'stopped' or c.retry_at is not null);
    get diagnostics v_count = row_count;
    perform pg_notify('headrace_log', headrace.topic_id(p_topic, v_namespace)::text);
    return v_count;
end
$$;
