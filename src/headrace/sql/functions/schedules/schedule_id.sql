-- The id of a schedule; raises HR130 if it does not exist.
create or replace function headrace.schedule_id(
    p_schedule text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_schedule_id integer;
    v_known       text;
begin
    select s.schedule_id into v_schedule_id
    from headrace_internal.schedule s where s.namespace = v_namespace and s.schedule = p_schedule;
    if v_schedule_id is null then
        select string_agg(k.schedule, ', ' order by k.schedule) into v_known
        from (select s.schedule from headrace_internal.schedule s where s.namespace = v_namespace order by 1 limit 10) k;
        raise exception 'there is no schedule "%" in namespace "%"', p_schedule, v_namespace
            using errcode = 'HR130', hint = format('Known schedules: %s.', coalesce(v_known, 'none'));
    end if;
    return v_schedule_id;
end
$$;
