-- Deletes ticks older than p_keep; returns how many. They are only a record: planning never goes back.
create or replace function headrace_internal.trim_schedule_ticks(p_keep interval default interval '90 days') returns bigint
language sql volatile
as $$
    with deleted as (delete from headrace.schedule_tick t where t.tick_at < headrace.clock() - p_keep returning 1)
    select count(*) from deleted
$$;
