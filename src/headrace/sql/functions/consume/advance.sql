-- Moves a claimed cursor: everything up to and including the position is handled. In the handler's own transaction.
create or replace function headrace.advance(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    update headrace_internal.cursor c
    set position = p_position, attempts = 0, retry_at = null, error = null, traceback = null, moved_at = headrace.clock()
    where c.consumer_id = p_consumer_id and c.partition = p_partition;
end
$$;
