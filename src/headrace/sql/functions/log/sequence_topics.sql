-- Moves the outbox rows of topics that the caller has locked into their logs, and returns what it did per topic, as an array of
-- objects: rows that a function has returned would stay returned when the caller rolls its work back.
-- A partition costs a lock on it and on each of its indexes, so one call appends to at most 32 time partitions of topics on the
-- event clock (but at least one per topic); the events after that wait for the next call.
-- Locks: see headrace_internal.sequence_topic.
create or replace function headrace_internal.sequence_topics(p_topic_ids integer[], p_batch integer) returns jsonb
language plpgsql volatile
as $$
declare
    v_topic     headrace_internal.topic;
    v_moved     record;
    v_done      jsonb[] := '{}';
    v_time_partitions integer := 32;
begin
    for v_topic in
        select t.* from headrace_internal.topic t where t.topic_id = any (p_topic_ids) order by t.topic_id
    loop
        v_moved := headrace_internal.sequence_topic(v_topic, p_batch, greatest(v_time_partitions, 1));
        v_time_partitions := v_time_partitions - v_moved.time_partitions;
        v_done := v_done || jsonb_build_object('topic_id', v_topic.topic_id, 'first_position', v_moved.first_position,
            'events', v_moved.events, 'duplicates', v_moved.duplicates);
    end loop;
    return to_jsonb(v_done);
end
$$;
