-- By how many seconds the due time of a held action is postponed: 50 years. An action is held while its rule or its name is paused;
-- headrace.resume subtracts them again, so that it keeps its order. An action due in more than 25 years counts as held.
create or replace function headrace_internal.hold_s() returns integer
language sql immutable parallel safe
as $$
    select 1577880000
$$;
