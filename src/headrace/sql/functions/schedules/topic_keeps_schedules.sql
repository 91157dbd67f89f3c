-- Rejects dropping a topic that has schedules (HR203).
create or replace function headrace_internal.topic_keeps_schedules() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedules text;
begin
    select string_agg(s.schedule, ', ' order by s.schedule) into v_schedules
    from headrace_internal.schedule s where s.topic_id = old.topic_id;
    if v_schedules is not null then
        raise exception 'topic "%" has schedules: %', old.topic, v_schedules
            using errcode = 'HR203', hint = 'Drop them first, with headrace.drop_schedule.';
    end if;
    return old;
end
$$;

create or replace trigger topic_keeps_schedules before delete on headrace_internal.topic
for each row execute function headrace_internal.topic_keeps_schedules();
