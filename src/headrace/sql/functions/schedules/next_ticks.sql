-- The next ticks of a schedule, as far as they are planned. Index: schedule_due_pkey.
create or replace function headrace.next_ticks(
    p_schedule text, p_limit integer default 10, p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns table (tick_at timestamptz, local_time timestamp)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize(p_caller, 'consume', p_namespace);
    return query select d.tick_at, d.tick_at at time zone s.zone
    from headrace_internal.schedule s
    join headrace_internal.schedule_due d on d.schedule_id = s.schedule_id
    where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
    order by d.tick_at
    limit p_limit;
end
$$;
