-- Wakes the sequencers, once, when one of these topics is asleep. Called after the rows are written, never before:
-- the lock of the written outbox slot is what keeps a sequencer from going to sleep unseen.
-- An older snapshot may still show the topic awake, so above read committed the sequencers are always told.
-- Index: topic_pkey. Locks nothing.
create or replace function headrace_internal.wake_topics(p_topic_ids integer[]) returns boolean
language plpgsql volatile
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed'
        or exists (select from headrace.topic t where t.topic_id = any (p_topic_ids) and t.asleep) then
        return headrace_internal.wake_sequencer();
    end if;
    return false;
end
$$;
