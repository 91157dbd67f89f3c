-- Sets headrace's clock for this session to a moment and returns the setting of before.
select current_setting('headrace.clock_shift', true), set_config('headrace.clock_shift',
    (%(moment)s::timestamptz - headrace.clock()
        + coalesce(nullif(current_setting('headrace.clock_shift', true), '')::interval, interval '0'))::text, %(is_local)s)
