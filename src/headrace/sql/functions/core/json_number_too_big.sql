-- Is there a number that does not fit a double (1e400)? jsonb accepts it; most JSON readers reject the whole text.
create or replace function headrace.json_number_too_big(p_json jsonb) returns boolean
language sql immutable strict parallel safe
as $$
    select exists (
        select from jsonb_path_query(p_json, 'strict $.**') scalar
        where jsonb_typeof(scalar) = 'number' and abs((scalar #>> '{}')::numeric) > 1.7976931348623158e308
    )
$$;
