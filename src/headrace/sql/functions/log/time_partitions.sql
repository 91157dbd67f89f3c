-- The time partitions of a topic's log, oldest first, with their borders. The default partition has none.
create or replace function headrace.time_partitions(p_topic_id integer, p_caller headrace_internal.caller default current_user)
returns table (name regclass, from_at timestamptz, to_at timestamptz)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    return query select b.name, b.border[1]::timestamptz, b.border[2]::timestamptz
    from (
        select i.inhrelid::regclass as name,
            regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') as border
        from pg_class b
        join pg_inherits i on i.inhparent = b.oid
        join pg_class c on c.oid = i.inhrelid
        -- By the catalog: to_regclass needs usage on the schema.
        where b.relnamespace = 'headrace_internal'::regnamespace and b.relname = 'log_' || p_topic_id
    ) b
    where b.border is not null
    order by 2;
end
$$;
