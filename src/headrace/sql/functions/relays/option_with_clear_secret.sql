-- The first option of a relay that has a secret in clear text, null if none has: an option, at whatever depth, that is named like a
-- secret and is no reference (env:… or file:…), or an address with a password. The library has the same rule and better messages.
create or replace function headrace_internal.option_with_clear_secret(p_options jsonb) returns text
language sql immutable
as $$
    with recursive part (option, name, value) as (
        select o.key, o.key, o.value from jsonb_each(p_options) o
        union all
        select p.option, coalesce(e.name, p.name), e.value
        from part p
        cross join lateral (
            select o.key as name, o.value from jsonb_each(case jsonb_typeof(p.value) when 'object' then p.value else '{}' end) o
            union all
            select null, a.value from jsonb_array_elements(case jsonb_typeof(p.value) when 'array' then p.value else '[]' end) a
        ) e
    )
    select p.option
    from part p cross join lateral (select p.value #>> '{}' as text) v
    where jsonb_typeof(p.value) in ('string', 'number') and (
        (p.name ~* '(secret|password|passwd|token|credential|apikey|api_key|authorization)' and v.text !~ '^(env|file):.')
        or v.text ~ '://[^/@[:space:]]*:[^/@[:space:]]+@' or v.text ~* '\mpassword\s*=')
    order by p.option
    limit 1
$$;
