-- Raises HR313 for a retention with which PostgreSQL cannot compute: negative, infinite or more than 1000 years. Null and zero, which
-- keep the log for ever, are allowed.
create or replace function headrace_internal.check_retention(p_retention interval) returns void
language plpgsql stable
as $$
begin
    if p_retention not between interval '0' and interval '1000 years' then
        raise exception 'retention is %, 0 to 1000 years are allowed', p_retention
            using errcode = 'HR313', hint = 'To keep the log for ever, leave the retention out or set it to 0.';
    end if;
end
$$;
