-- The nesting depth of a JSON value: scalar 0, {} 1, {"a": []} 2. Stops counting at p_stop.
create or replace function headrace.json_depth(p_json jsonb, p_stop integer) returns integer
language sql immutable strict parallel safe
as $$
    with recursive level (depth, node) as (
        select 1, p_json where pg_catalog.jsonb_typeof(p_json) in ('array', 'object')
        union all
        select l.depth + 1, child.value
        from level l
        cross join lateral (
            select e.value from pg_catalog.jsonb_each(case when pg_catalog.jsonb_typeof(l.node) = 'object' then l.node else '{}' end) e
            union all
            select a.value from pg_catalog.jsonb_array_elements(case when pg_catalog.jsonb_typeof(l.node) = 'array' then l.node else '[]' end) a
        ) child
        where l.depth < p_stop and pg_catalog.jsonb_typeof(child.value) in ('array', 'object')
    )
    select coalesce(pg_catalog.max(depth), 0) from level
$$;
