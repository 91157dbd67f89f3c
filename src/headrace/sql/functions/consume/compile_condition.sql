-- Stores the compiled form of a consumer's condition, or why it has none, unless the condition was changed meanwhile; wakes the
-- consumer. Only the owner and nodes may call it: p_filter is executed with the owner's rights. True if it was stored; false also while
-- another transaction holds the consumer's row, so that no role can make the conditions of others wait.
-- Locks: the consumer row, skip locked.
create or replace function headrace_internal.compile_condition(p_consumer_id bigint, p_condition text, p_filter text, p_error text)
returns boolean
language plpgsql volatile
as $$
begin
    update headrace_internal.consumer c set filter = p_filter, condition_error = left(p_error, 2000)
    where c.condition = p_condition and c.consumer_id = (
        select l.consumer_id from headrace_internal.consumer l where l.consumer_id = p_consumer_id for no key update skip locked);
    if not found then
        return false;
    end if;
    perform headrace_internal.notify('headrace_log', c.topic_id::text) from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    return true;
end
$$;
