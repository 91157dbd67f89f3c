-- Is there a number that does not fit a double (1e400)? jsonb accepts it; most JSON readers reject the whole text.
create or replace function headrace.json_number_too_big(p_json jsonb) returns boolean
language sql immutable strict parallel safe
as $$
    select exists (
        select from pg_catalog.jsonb_path_query(p_json, 'strict $.**') scalar
        where pg_catalog.jsonb_typeof(scalar) = 'number' and pg_catalog.abs((scalar #>> '{}'::text[])::numeric) > 1.7976931348623158e308
    )
$$;
