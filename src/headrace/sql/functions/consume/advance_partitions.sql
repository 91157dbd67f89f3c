-- Moves claimed cursors, like headrace.advance: the position of each partition is the last that is handled. In the handler's own
-- transaction. Locks: the cursor rows, which the caller has claimed. Index: cursor_pkey.
create or replace function headrace.advance_partitions(
    p_consumer_id bigint, p_partitions integer[], p_positions bigint[], p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    for i in 1 .. cardinality(p_partitions) loop
        update headrace_internal.cursor c
        set position = p_positions[i], attempts = 0, retry_at = null, error = null, traceback = null, moved_at = headrace.clock()
        where c.consumer_id = p_consumer_id and c.partition = p_partitions[i];
    end loop;
end
$$;
