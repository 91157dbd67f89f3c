-- The newest p_max of the positions.
create or replace function headrace_internal.newest(p_positions bigint[], p_max integer) returns bigint[]
language sql immutable parallel safe
as $$
    select p_positions[greatest(cardinality(p_positions) - p_max + 1, 1):]
$$;
