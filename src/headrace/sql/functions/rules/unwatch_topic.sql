-- Deletes the internal consumer of a topic without rules, so that it does not hold back retention. True if it did.
-- Runs in the transaction that began a compilation. The next compilation finds a rule that is being written now.
create or replace function headrace_internal.unwatch_topic(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
begin
    if exists (select from headrace_internal.rule r where r.topic_id = p_topic_id)
        or exists (select from headrace_internal.rule_version v where v.topic_id = p_topic_id and v.status = 'pending') then
        return false;
    end if;
    delete from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = 'headrace.rules';
    return true;
end
$$;
