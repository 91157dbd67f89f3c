-- The consumers of a topic that have events up to a position before them, by name; null if there are none. Index: log_position.
-- Not in SQL: before PostgreSQL 18 such a function keeps its plan for the caller's loop, which drops partitions that are in it. It
-- names the topic's own branch: by the whole log it would be planned for, and lock, every topic.
create or replace function headrace_internal.consumers_before(p_topic_id integer, p_position bigint) returns text
language plpgsql stable
as $$
declare
    v_names text;
begin
    execute format(
        'select string_agg(distinct c.consumer, '', '') from headrace_internal.consumer c '
        'join headrace_internal.cursor u on u.consumer_id = c.consumer_id '
        'where c.topic_id = $1 and u.position < $2 and exists (select from headrace_internal.%I l '
        'where l.position > u.position and l.position <= $2 and (u.partition = -1 or l.partition = u.partition))', 'log_' || p_topic_id)
    into v_names using p_topic_id, p_position;
    return v_names;
end
$$;
