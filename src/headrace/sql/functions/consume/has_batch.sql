-- Are there p_min events after a cursor, or has the oldest waited p_wait_s seconds? With a condition (its compiled form): events for
-- which it is true, among those up to p_upto. It names the topic's own branch, see headrace_internal.next_position.
-- Indexes: log_partition, log_position.
create or replace function headrace_internal.has_batch(
    p_topic_id integer, p_partition integer, p_position bigint, p_min integer, p_wait_s double precision,
    p_filter text default null, p_upto bigint default null
) returns boolean
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_events    integer;
    v_oldest_at timestamptz;
begin
    execute format(
        'select count(*), min(e.appended_at) from (select l.appended_at from headrace_internal.%I l where %s%s limit $3) e',
        'log_' || p_topic_id,
        case when p_filter is not null then '(' || p_filter || ') and l.position <= $4 and ' end,
        case when p_partition < 0 then 'l.position > $2 order by l.position'
            else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position' end)
    into v_events, v_oldest_at using p_partition, p_position, p_min, p_upto;
    return v_events >= p_min or v_oldest_at <= headrace.clock() - make_interval(secs => p_wait_s);
end
$$;
