-- Notifies the sequencers, once, of those of these topics that are asleep. Call it after the rows are written, never before: the lock on
-- the written outbox slot keeps a sequencer from falling asleep unnoticed.
-- An older snapshot may still show the topic awake, so above read committed it always notifies. Index: topic_pkey. Locks nothing.
create or replace function headrace_internal.wake_topics(p_topic_ids integer[]) returns boolean
language plpgsql volatile
as $$
begin
    perform headrace_internal.wake_sequencer(t.topic_id)
    from headrace_internal.topic t
    where t.topic_id = any (p_topic_ids) and (t.asleep or current_setting('transaction_isolation') <> 'read committed');
    return found;
end
$$;
