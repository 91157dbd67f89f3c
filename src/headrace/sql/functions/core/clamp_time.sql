-- The nearest time within the limits. Not strict: PostgreSQL would call it for every row instead of writing it into the statement.
create or replace function headrace_internal.clamp_time(p_time timestamptz) returns timestamptz
language sql immutable parallel safe
as $$
    select greatest(timestamptz '0001-01-02 00:00:00+00', least(timestamptz '9999-12-30 23:59:59.999999+00', p_time))
$$;
