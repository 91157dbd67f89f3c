-- Deletes old ticks. They are only a record: planning never goes back.
delete from headrace_internal.schedule_tick t where t.tick_at < headrace.clock() - %(keep)s;
