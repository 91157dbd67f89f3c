-- The time partitions of a topic's log, oldest first, with their borders. The default partition has none.
create or replace function headrace.time_partitions(p_topic_id integer)
returns table (name regclass, from_at timestamptz, to_at timestamptz)
language sql stable
as $$
    select b.name, b.border[1]::timestamptz, b.border[2]::timestamptz
    from (
        select i.inhrelid::regclass as name,
            regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') as border
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = to_regclass(format('headrace.%I', 'log_' || p_topic_id))
    ) b
    where b.border is not null
    order by 2
$$;

-- Makes time partitions for the moment given and two widths ahead, through pg_partman where it manages the topic.
-- Locks: share update exclusive on the topic's branch while attaching, so readers and writers go on.
create or replace function headrace.extend_log(p_topic_id integer, p_at timestamptz) returns timestamptz
language plpgsql volatile
-- Borders do not move with the session's time zone.
set timezone = 'UTC'
as $$
declare
    v_branch text := 'log_' || p_topic_id;
    v_format text := coalesce(headrace.partman_format(p_topic_id), 'YYYYMMDD');
    v_width  text;
    v_from   timestamptz;
    v_to     timestamptz;
    v_name   text;
    v_until  timestamptz;
begin
    select t.time_partition into strict v_width from headrace.topic t where t.topic_id = p_topic_id;
    perform headrace.partman_maintain(p_topic_id);
    for i in 0 .. 2 loop
        v_from := date_trunc(v_width, p_at) + i * ('1 ' || v_width)::interval;
        v_to := v_from + ('1 ' || v_width)::interval;
        continue when exists (
            select from headrace.time_partitions(p_topic_id) p where p.from_at < v_to and p.to_at > v_from);
        v_name := v_branch || '_p' || to_char(v_from, v_format);
        execute format('create table headrace.%I (like headrace.%I)', v_name, v_branch);
        execute format('alter table headrace.%I attach partition headrace.%I for values from (%L) to (%L)',
            v_branch, v_name, v_from, v_to);
    end loop;
    select max(p.to_at) into v_until from headrace.time_partitions(p_topic_id) p;
    update headrace.topic t set log_until = v_until where t.topic_id = p_topic_id;
    return v_until;
end
$$;

-- Makes the time partitions that the events waiting in the outbox up to an id need, in a topic whose time is theirs and stands at
-- p_time (null: it is empty). Returns where the partitions end. Index: outbox_order.
create or replace function headrace.extend_log_to_events(p_topic_id integer, p_time timestamptz, p_bound bigint) returns timestamptz
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_width text := (select t.time_partition from headrace.topic t where t.topic_id = p_topic_id);
    v_step  interval := '1 ' || v_width;
    v_until timestamptz := date_trunc(v_width, p_time) + v_step;
    v_at    timestamptz;
begin
    for v_at in
        select distinct date_trunc(v_width, headrace.clamp_time(o.emitted_at))
        from headrace.outbox o
        where o.topic_id = p_topic_id and o.id <= p_bound and (v_until is null or o.emitted_at >= v_until)
        order by 1
    loop
        perform headrace.extend_log(p_topic_id, v_at);
        v_until := v_at + 3 * v_step;
    end loop;
    return v_until;
end
$$;
