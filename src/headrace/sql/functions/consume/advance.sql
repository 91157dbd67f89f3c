-- Moves a claimed cursor: everything up to and including the position is handled. In the handler's own transaction.
create or replace function headrace.advance(p_consumer_id integer, p_partition integer, p_position bigint) returns void
language sql volatile
as $$
    update headrace_internal.cursor
    set position = p_position, attempts = 0, retry_at = null, error = null, moved_at = headrace.clock()
    where consumer_id = p_consumer_id and partition = p_partition
$$;
