-- How far a consumer may go: up to the oldest border (change of the number of partitions) that one of its partitions has not
-- reached; without one, the largest bigint. PL/pgSQL, because almost no topic has a border: the query's plan is then never started.
-- Indexes: topic_border_pkey, cursor_pkey, log_partition.
create or replace function headrace_internal.consumer_bound(p_consumer_id bigint, p_topic_id integer) returns bigint
language plpgsql stable
as $$
begin
    if not exists (select from headrace_internal.topic_border b where b.topic_id = p_topic_id and b.position > 0) then
        return 9223372036854775807;
    end if;
    return (
        select coalesce(min(b.position), 9223372036854775807)
        from headrace_internal.topic_border b
        where b.topic_id = p_topic_id and b.position > 0
            and exists (
                select from headrace_internal.cursor c
                where c.consumer_id = p_consumer_id and c.partition >= 0 and c.position < b.position
                    and headrace_internal.next_position(p_topic_id, c.partition, c.position) <= b.position));
end
$$;
