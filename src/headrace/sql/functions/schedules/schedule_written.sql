-- Every way a schedule is written passes here: bad expressions, zones and events are refused, and a change of what decides
-- the ticks throws the plan away. Ticks already due stay due, unless the schedule is paused: a pause misses nothing.
create or replace function headrace_internal.schedule_written() returns trigger
language plpgsql volatile
as $$
begin
    if tg_op = 'INSERT' or new.cron is distinct from old.cron then
        perform headrace_internal.check_cron(new.cron);
    end if;
    if tg_op = 'INSERT' or new.zone is distinct from old.zone then
        perform headrace_internal.check_zone(new.zone);
    end if;
    perform headrace_internal.event_within_limits(new.type, new.key, new.payload,
        new.headers || headrace_internal.schedule_headers(0, new.schedule, headrace.clock()));
    if tg_op = 'INSERT' or (new.cron, new.zone, new.active) is distinct from (old.cron, old.zone, old.active) then
        new.planned_until := headrace.clock();
        new.replan_at := '-infinity';
        new.error := null;
        new.attempts := 0;
        new.retry_at := null;
        delete from headrace_internal.schedule_due d
        where d.schedule_id = new.schedule_id and (d.tick_at > headrace.clock() or not new.active);
        perform pg_notify('headrace_schedule', '');
    end if;
    return new;
end
$$;

create or replace trigger schedule_written before insert or update on headrace.schedule
for each row execute function headrace_internal.schedule_written();
