-- Refuses a time that not every reader knows: raises HR312 and never returns false. Null, the time of now, is within.
-- The borders are those of core/_limits.py. Locks nothing.
create or replace function headrace_internal.time_within_limits(p_emitted_at timestamptz) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if p_emitted_at <> headrace_internal.clamp_time(p_emitted_at) then
        raise exception 'emitted_at is %, 0001-01-02 to 9999-12-30 are allowed', p_emitted_at
            using errcode = 'HR312', hint = 'Leave it out for the time of now; to_timestamp takes seconds, not milliseconds.';
    end if;
    return true;
end
$$;
