-- Rejects a time that not every reader can represent: raises HR312 and never returns false. Null, the current time, is allowed.
-- The limits are those of headrace.core.
create or replace function headrace.time_within_limits(p_emitted_at timestamptz) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if p_emitted_at not between timestamptz '0001-01-02 00:00:00+00' and timestamptz '9999-12-30 23:59:59.999999+00' then
        raise exception 'emitted_at is %, 0001-01-02 to 9999-12-30 are allowed', p_emitted_at
            using errcode = 'HR312', hint = 'Leave it out for the current time; to_timestamp takes seconds, not milliseconds.';
    end if;
    return true;
end
$$;
