-- True if no action of a namespace waits, is delayed or is being handled: then nothing can become due without a notification.
-- Locks nothing. Index: the primary key of the queue.
create or replace function headrace.queue_is_empty(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_msg_id    bigint;
begin
    execute format('select q.msg_id from pgmq.%I q order by q.msg_id limit 1', 'q_' || headrace_internal.queue_of(v_namespace)) into v_msg_id;
    return v_msg_id is null;
end
$$;
