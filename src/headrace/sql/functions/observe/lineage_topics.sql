-- The topics that have lineage, also dropped ones. Indexes: firing_position, correlation_position, correlation_timer, in steps
-- from one topic to the next, whatever the statistics say.
create or replace function headrace_internal.lineage_topics() returns setof integer
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query
    with recursive fired as (
        (select f.topic_id from headrace_internal.firing f order by f.topic_id limit 1)
        union all
        select n.topic_id from fired p
        cross join lateral (
            select f.topic_id from headrace_internal.firing f where f.topic_id > p.topic_id order by f.topic_id limit 1) n
    ), pushed as (
        (select f.topic_id from headrace_internal.correlation f where f.position is not null order by f.topic_id limit 1)
        union all
        select n.topic_id from pushed p
        cross join lateral (
            select f.topic_id from headrace_internal.correlation f
            where f.position is not null and f.topic_id > p.topic_id order by f.topic_id limit 1) n
    ), timed as (
        (select f.topic_id from headrace_internal.correlation f where f.position is null order by f.topic_id limit 1)
        union all
        select n.topic_id from timed p
        cross join lateral (
            select f.topic_id from headrace_internal.correlation f
            where f.position is null and f.topic_id > p.topic_id order by f.topic_id limit 1) n
    )
    select f.topic_id from fired f union select p.topic_id from pushed p union select t.topic_id from timed t;
end
$$;
