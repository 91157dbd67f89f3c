-- Deletes the internal consumer of a topic without rules, so that it does not hold back retention. True if it did.
-- Runs in the transaction that began a compilation. A transaction that has written a rule and is still open holds the consumer's row:
-- the consumer then stays, and a later compilation decides. Locks: the consumer row, for update, skip locked.
create or replace function headrace_internal.unwatch_topic(p_topic_id integer) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer_id bigint;
begin
    select c.consumer_id into v_consumer_id
    from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = 'headrace.rules'
    for update skip locked;
    -- Checked while the row is locked: whoever writes a rule from here on waits for us, and creates the consumer again.
    if not found or exists (select from headrace_internal.rule r where r.topic_id = p_topic_id)
        or exists (select from headrace_internal.rule_version v where v.topic_id = p_topic_id and v.status = 'pending') then
        return false;
    end if;
    delete from headrace_internal.consumer c where c.consumer_id = v_consumer_id;
    return true;
end
$$;
