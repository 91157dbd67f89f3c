-- Changes a topic; null leaves a setting as it is. Retention '0' keeps the log for ever.
-- More partitions take effect right after the current head: consumers bring every partition up to that border before any partition
-- passes it, so each key keeps its order. Fewer partitions are rejected (HR204).
-- Raises HR313 for a retention of more than 1000 years, and HR208 for partitions unless READ COMMITTED: by an older snapshot
-- the border would lie before the head. Locks: the topic row, so it waits for a running sequencer batch.
create or replace function headrace.alter_topic(
    p_topic      text,
    p_partitions integer default null,
    p_retention  interval default null,
    p_namespace  text default null,
    p_caller     headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic     record;
    v_head      bigint;
begin
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    perform headrace_internal.check_retention(p_retention);
    if p_partitions is not null then
        perform headrace_internal.require_read_committed('headrace.alter_topic');
    end if;
    select t.topic_id, t.partitions, t.dropped_to into v_topic
    from headrace_internal.topic t where t.topic_id = headrace.topic_id(p_topic, v_namespace) for no key update;
    if p_partitions < v_topic.partitions then
        raise exception 'topic "%" has % partitions; % would be fewer', p_topic, v_topic.partitions, p_partitions
            using errcode = 'HR204', hint = 'The number of partitions can only be raised.';
    end if;
    if p_partitions > v_topic.partitions then
        v_head := coalesce((select h.position from headrace.log_head(v_topic.topic_id) h), v_topic.dropped_to);
        insert into headrace_internal.topic_border (topic_id, position, partitions) values (v_topic.topic_id, v_head, p_partitions)
        on conflict on constraint topic_border_pkey do update set partitions = excluded.partitions;
        insert into headrace_internal.cursor (consumer_id, partition, position)
        select c.consumer_id, p.partition, v_head
        from headrace_internal.consumer c
        cross join generate_series(v_topic.partitions, p_partitions - 1) p (partition)
        where c.topic_id = v_topic.topic_id and c.ordered_by = 'partition';
        perform headrace_internal.add_claims(v_topic.topic_id);
    end if;
    update headrace_internal.topic t
    set partitions = coalesce(p_partitions, t.partitions),
        retention = case when p_retention is null then t.retention
            when p_retention = interval '0' then null else p_retention end
    where t.topic_id = v_topic.topic_id;
end
$$;
