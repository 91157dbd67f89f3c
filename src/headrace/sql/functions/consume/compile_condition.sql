-- Stores the compiled form of a consumer's condition, or why it has none, unless the condition was changed meanwhile; wakes the
-- consumer. Only the owner and nodes may call it: p_filter is executed with the owner's rights. True if it was stored.
-- Locks: the consumer row, skip locked: whoever holds it may change the condition, and must not delay those of other namespaces.
create or replace function headrace_internal.compile_condition(p_consumer_id bigint, p_condition text, p_filter text, p_error text)
returns boolean
language plpgsql volatile
as $$
begin
    update headrace_internal.consumer c set filter = p_filter, condition_error = left(p_error, 2000)
    where c.consumer_id = (
        select k.consumer_id from headrace_internal.consumer k
        where k.consumer_id = p_consumer_id and k.condition = p_condition for no key update skip locked);
    if not found then
        return false;
    end if;
    perform headrace_internal.notify('headrace_log', c.topic_id::text) from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    return true;
end
$$;
