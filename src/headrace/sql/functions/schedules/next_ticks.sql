-- The next ticks of a schedule, as far as they are planned. Index: schedule_due_pkey.
create or replace function headrace.next_ticks(p_schedule text, p_limit integer default 10, p_namespace text default null)
returns table (tick_at timestamptz, local_time timestamp)
language sql stable
as $$
    select d.tick_at, d.tick_at at time zone s.zone
    from headrace.schedule s
    join headrace.schedule_due d on d.schedule_id = s.schedule_id
    where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
    order by d.tick_at
    limit p_limit
$$;
