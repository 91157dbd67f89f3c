-- Returns the nesting depth of a JSON value: scalar 0, {} 1, {"a": []} 2. Stops counting at p_stop.
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

-- Is there a number that does not fit a double (1e400)? jsonb accepts it; most JSON readers reject the whole text.
create or replace function headrace.json_number_too_big(p_json jsonb) returns boolean
language sql immutable strict parallel safe
as $$
    select exists (
        select from pg_catalog.jsonb_path_query(p_json, 'strict $.**') scalar
        where pg_catalog.jsonb_typeof(scalar) = 'number' and pg_catalog.abs((scalar #>> '{}'::text[])::numeric) > 1.7976931348623158e308
    )
$$;

-- Rejects an event that exceeds a limit: raises HR300 … HR306 and never returns false. The numbers are those of headrace.core.
-- Calls: json_depth, json_number_too_big.
create or replace function headrace.event_within_limits(
    p_type text, p_key text, p_payload jsonb, p_headers jsonb, p_producer text default null
) returns boolean
language plpgsql immutable parallel safe
as $$
declare
    v_text  text := p_payload::text;
    v_bytes integer := pg_catalog.octet_length(v_text);
begin
    if p_payload is null then
        raise exception 'payload is missing'
            using errcode = 'HR300', hint = 'Publish ''null''::jsonb for an event without content.';
    end if;
    if v_bytes > 1048576 then
        raise exception 'payload has % bytes, at most 1048576 are allowed', v_bytes
            using errcode = 'HR301', hint = 'Store the large part elsewhere and publish a reference to it.';
    end if;
    -- A level takes a bracket and two bytes, so most texts are cleared without a walk.
    if v_bytes > 256 and v_bytes - pg_catalog.octet_length(pg_catalog.replace(pg_catalog.replace(v_text, '{', ''), '[', '')) > 128
        and headrace.json_depth(p_payload, 129) > 128 then
        raise exception 'payload nests deeper than 128 levels'
            using errcode = 'HR302', hint = 'Flatten the payload, or publish the deep part as a string.';
    end if;
    -- A regular expression counts to 255 at most; a number beyond the limit has 309 digits.
    if v_bytes > 308 and v_text ~ '[0-9]{250}' and headrace.json_number_too_big(p_payload) then
        raise exception 'payload has a number beyond 1.8e308, which JSON readers reject'
            using errcode = 'HR303', hint = 'Publish the number as a string.';
    end if;
    if pg_catalog.octet_length(p_type) > 200 or coalesce(p_type, '') !~ '^[A-Za-z_][A-Za-z0-9_.:/-]*( [A-Za-z0-9_.:/-]+)*$' then
        raise exception 'event type "%" is not a name', pg_catalog.left(p_type, 200)
            using errcode = 'HR304', hint = 'Use 1 to 200 letters, digits, single spaces and _ . : / - and start with a letter or _.';
    end if;
    if pg_catalog.octet_length(p_key) not between 1 and 1024 then
        raise exception 'key has % bytes, 1 to 1024 are allowed', pg_catalog.octet_length(p_key)
            using errcode = 'HR305', hint = 'Leave the key out for an event without one; hash a long key.';
    end if;
    if pg_catalog.octet_length(p_producer) > 1024 then
        raise exception 'producer has % bytes, at most 1024 are allowed', pg_catalog.octet_length(p_producer)
            using errcode = 'HR300', hint = 'Shorten the name.';
    end if;
    if p_headers <> '{}' and (pg_catalog.jsonb_typeof(p_headers) <> 'object' or pg_catalog.octet_length(p_headers::text) > 16384
        or headrace.json_depth(p_headers, 129) > 128 or headrace.json_number_too_big(p_headers)) then
        raise exception 'headers must be a JSON object of at most 16384 bytes, with the payload''s limits on depth and numbers'
            using errcode = 'HR306', hint = 'Put data into the payload; headers carry context.';
    end if;
    return true;
end
$$;

-- Rejects a time that not every reader can represent: raises HR312 and never returns false. Null, the current time, is allowed.
-- The limits are those of headrace.core.
create or replace function headrace.time_within_limits(p_emitted_at timestamptz) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if p_emitted_at not between timestamptz '0001-01-02 00:00:00+00' and timestamptz '9999-12-30 23:59:59.999999+00' then
        raise exception 'emitted_at is %, 0001-01-02 to 9999-12-30 are allowed', p_emitted_at
            using errcode = 'HR312', hint = 'Leave it out for the current time; to_timestamp takes seconds, not milliseconds.';
    end if;
    return true;
end
$$;
