-- Before a schedule is written: rejects invalid expressions, zones, events and topics of another namespace; a change of
-- expression, zone or state deletes the plan. Ticks that are due stay due, unless the schedule is paused.
create or replace function headrace_internal.schedule_written() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from headrace_internal.topic t where t.topic_id = new.topic_id and t.namespace = new.namespace) then
        raise exception 'there is no topic % in namespace "%"', new.topic_id, new.namespace
            using errcode = 'HR101', hint = 'A schedule publishes in its own namespace.';
    end if;
    perform headrace_internal.refuse_reserved_topic(t.topic) from headrace_internal.topic t where t.topic_id = new.topic_id;
    if tg_op = 'INSERT' or new.cron is distinct from old.cron then
        perform headrace_internal.check_cron(new.cron);
    end if;
    -- Only IANA names: PostgreSQL itself would accept abbreviations and formulas too.
    if (tg_op = 'INSERT' or new.zone is distinct from old.zone) and (new.zone ~ '^(posix|right|localtime|Factory)'
        or not exists (select from pg_timezone_names z where z.name = new.zone)) then
        raise exception 'there is no time zone "%"', left(new.zone, 100)
            using errcode = 'HR331', hint = 'Use an IANA name such as Europe/Berlin, or UTC.';
    end if;
    perform headrace.event_within_limits(new.type, new.key, new.payload,
        new.headers || headrace_internal.schedule_headers(0, new.schedule, headrace.clock()));
    if tg_op = 'INSERT' or (new.cron, new.zone, new.active) is distinct from (old.cron, old.zone, old.active) then
        new.planned_until := headrace.clock();
        new.replan_at := '-infinity';
        new.error := null;
        new.attempts := 0;
        new.retry_at := null;
        delete from headrace_internal.schedule_due d
        where d.schedule_id = new.schedule_id and (d.tick_at > headrace.clock() or not new.active);
        perform headrace_internal.notify('headrace_schedule', '');
    end if;
    return new;
end
$$;

create or replace trigger schedule_written before insert or update on headrace_internal.schedule
for each row execute function headrace_internal.schedule_written();
