-- How many ticks are due and have not fired.
select count(*) from headrace_internal.schedule_due d
join headrace_internal.schedule s on s.schedule_id = d.schedule_id and s.active
where d.tick_at <= headrace.clock();
