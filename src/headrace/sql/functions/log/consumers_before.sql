-- The consumers of a topic that have events up to a position before them, by name; null if there are none. Index: log_position.
-- Not in SQL: before PostgreSQL 18 such a function keeps its plan for the caller's loop, which drops partitions that are in it.
create or replace function headrace_internal.consumers_before(p_topic_id integer, p_position bigint) returns text
language plpgsql stable
as $$
begin
    return (
        select string_agg(distinct c.consumer, ', ')
        from headrace_internal.consumer c
        join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = p_topic_id and u.position < p_position
            and exists (
                select from headrace_internal.log l
                where l.topic_id = p_topic_id and l.position > u.position and l.position <= p_position
                    and (u.partition = -1 or l.partition = u.partition)));
end
$$;
