-- Moves the outbox rows of topics into their logs, each topic in a subtransaction of its own: one that fails is recorded in
-- headrace_internal.failure and does not stop the others. The topics come in the order of the array. Those that other sequencers hold,
-- or whose retry is not due yet, are left out; after 0.2 s also those of a namespace that has had a topic.
-- Locks: the topic rows (no key update, skip locked). Index: failure_pkey; see headrace_internal.sequence_topic.
create or replace function headrace_internal.sequence_alone(p_topic_ids integer[], p_batch integer)
returns headrace_internal.topic_move[]
language plpgsql volatile
as $$
declare
    v_topic      record;
    v_moved      record;
    v_partitions integer := 32;
    v_served     text[] := '{}';
    v_moves      headrace_internal.topic_move[];
begin
    for v_topic in
        select t as topic_row, t.topic_id, t.namespace, t.topic, f.name is not null as has_failed
        from headrace_internal.topic t
        left join headrace_internal.failure f on f.kind = 'sequence' and f.namespace = t.namespace and f.name = t.topic
        where t.topic_id = any (p_topic_ids) and (f.retry_at is null or f.retry_at <= headrace.clock())
        order by array_position(p_topic_ids, t.topic_id)
        for no key update of t skip locked
    loop
        continue when v_topic.namespace = any (v_served) and clock_timestamp() > statement_timestamp() + interval '0.2 seconds';
        v_served := v_served || v_topic.namespace;
        begin
            v_moved := headrace_internal.sequence_topic(v_topic.topic_row, p_batch, greatest(v_partitions, 1));
            if v_topic.has_failed then
                perform headrace_internal.clear_failure('sequence', v_topic.namespace, v_topic.topic);
            end if;
            v_partitions := v_partitions - v_moved.time_partitions;
            v_moves := v_moves
                || (v_topic.topic_id, v_moved.first_position, v_moved.events, v_moved.duplicates)::headrace_internal.topic_move;
        exception when others then
            perform headrace_internal.record_failure('sequence', v_topic.namespace, v_topic.topic,
                format('%s (SQLSTATE %s)', sqlerrm, sqlstate),
                p_backoff_s => case when sqlstate = '55P03' then 0.1 else 1 end,
                p_backoff_max_s => case when sqlstate = '55P03' then 5 else 30 end);
        end;
    end loop;
    return v_moves;
end
$$;
