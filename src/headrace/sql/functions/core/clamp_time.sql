-- The nearest time within the limits. Not strict, so that PostgreSQL inlines it instead of calling it for every row.
create or replace function headrace_internal.clamp_time(p_time timestamptz) returns timestamptz
language sql immutable parallel safe
as $$
    select greatest(timestamptz '0001-01-02 00:00:00+00', least(timestamptz '9999-12-30 23:59:59.999999+00', p_time))
$$;
