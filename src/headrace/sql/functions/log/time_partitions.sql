-- The time partitions of a topic's log, oldest first, with their borders. The default partition has none.
create or replace function headrace_internal.time_partitions(p_topic_id integer)
returns table (name regclass, from_at timestamptz, to_at timestamptz)
language sql stable
as $$
    select b.name, b.border[1]::timestamptz, b.border[2]::timestamptz
    from (
        select i.inhrelid::regclass as name,
            regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') as border
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = to_regclass(format('headrace_internal.%I', 'log_' || p_topic_id))
    ) b
    where b.border is not null
    order by 2
$$;
