-- The lag of every cursor of a namespace, or of one topic or consumer: how many events it has not handled, and the time of the oldest.
-- The lag of a cursor over the whole topic is a difference of positions. Of one partition up to p_exact events are counted; beyond
-- that the number is an estimate, the partition's share of the events after the cursor. So a call costs the same whatever the log
-- holds: about 0.1 ms for a cursor that is behind, next to nothing for one that is not.
-- Each look-up names the topic's own branch of the log: by the whole log it would be planned for every topic.
-- Locks nothing. Indexes: log_partition in a form that rules out every other index, log_position.
create or replace function headrace.cursor_lag(
    p_topic text default null, p_consumer text default null, p_namespace text default null, p_exact integer default 100,
    p_caller headrace_internal.caller default current_user
) returns table (consumer_id integer, partition integer, events bigint, is_estimate boolean, oldest_at timestamptz)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_cursor    record;
    v_topic_id  integer;
    v_branch    text;
    v_head      bigint;
begin
    for v_cursor in
        select t.topic_id, t.partitions, t.dropped_to, u.consumer_id, u.partition, u.position
        from headrace_internal.topic t
        join headrace_internal.consumer c on c.topic_id = t.topic_id and (p_consumer is null or c.consumer = p_consumer)
        join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where t.namespace = v_namespace and (p_topic is null or t.topic = p_topic)
        order by t.topic_id
    loop
        if v_topic_id is distinct from v_cursor.topic_id then
            v_topic_id := v_cursor.topic_id;
            v_branch := format('headrace_internal.%I', 'log_' || v_topic_id);
            execute format('select l.position from %s l order by l.position desc limit 1', v_branch) into v_head;
            v_head := coalesce(v_head, v_cursor.dropped_to);
        end if;
        consumer_id := v_cursor.consumer_id;
        partition := v_cursor.partition;
        events := 0;
        is_estimate := false;
        oldest_at := null;
        if v_cursor.position < v_head and v_cursor.partition < 0 then
            events := v_head - v_cursor.position;
            execute format('select l.appended_at from %s l where l.position > $1 order by l.position limit 1', v_branch)
            into oldest_at using v_cursor.position;
        elsif v_cursor.position < v_head then
            execute format(
                'select count(*), min(l.appended_at) from (select l.appended_at from %s l '
                'where l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position limit $3) l', v_branch)
            into events, oldest_at using v_cursor.partition, v_cursor.position, p_exact + 1;
            is_estimate := events > p_exact;
            if is_estimate then
                events := greatest((v_head - v_cursor.position) / v_cursor.partitions, events);
            end if;
        end if;
        return next;
    end loop;
end
$$;
