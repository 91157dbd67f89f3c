-- The last of the next p_max events after a cursor, and how many there are. Of a partition only up to the border that the consumer may
-- not pass yet. In a large log it names the topic's own branch, see headrace_internal.log_is_small. Indexes: log_partition, log_position.
-- Runs as the owner: a node has no right on a branch.
create or replace function headrace_internal.batch_end(
    p_consumer_id bigint, p_topic_id integer, p_partition integer, p_position bigint, p_max integer, out upto bigint, out events integer
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    if p_partition < 0 and headrace_internal.log_is_small() then
        select max(l.position), count(*) into upto, events
        from (
            select l.position from headrace_internal.log l
            where l.topic_id = p_topic_id and l.position > p_position order by l.position limit p_max) l;
        return;
    end if;
    execute format(
        case when p_partition < 0 then
            'select max(l.position), count(*) from (select l.position from headrace_internal.%I l '
            'where l.position > $2 order by l.position limit $3) l'
        else
            'select max(l.position), count(*) from (select l.position from headrace_internal.%I l '
            'where l.partition <= $1 and (l.partition, l.position) > ($1, $2) '
            'and l.position <= (select headrace_internal.consumer_bound($4, $5)) order by l.partition, l.position limit $3) l' end,
        'log_' || p_topic_id)
    into upto, events using p_partition, p_position, p_max, p_consumer_id, p_topic_id;
end
$$;
