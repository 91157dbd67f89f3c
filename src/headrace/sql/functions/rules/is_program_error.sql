-- Is an error the program's own fault? Conflicts, missing resources, locks, cancellation and failures of the system are not: they pass
-- to the caller, who tries again.
create or replace function headrace_internal.is_program_error(p_sqlstate text) returns boolean
language sql immutable
as $$
    select left(p_sqlstate, 2) not in ('08', '25', '40', '53', '54', '55', '57', '58')
$$;
