-- Deletes ticks older than p_keep; returns how many. They are only a record: planning never goes back.
create or replace function headrace_internal.trim_schedule_ticks(p_keep interval default interval '90 days') returns bigint
language plpgsql volatile
as $$
declare
    v_count bigint;
begin
    delete from headrace.schedule_tick t where t.tick_at < headrace.clock() - p_keep;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
