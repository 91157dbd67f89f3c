-- Returns a CloudEvent unchanged, or raises HR311 with what is missing or wrong.
create or replace function headrace_internal.check_cloudevent(p_event jsonb) returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_wrong text;
begin
    if jsonb_typeof(p_event) is distinct from 'object' then
        v_wrong := 'it is not a JSON object';
    elsif p_event ->> 'specversion' is distinct from '1.0' then
        v_wrong := format('specversion is %s, not 1.0', coalesce(p_event ->> 'specversion', 'missing'));
    elsif p_event -> 'data' <> 'null' and p_event -> 'data_base64' <> 'null' then
        v_wrong := 'it has both data and data_base64';
    else
        select format('%s is missing or not text', r.name) into v_wrong
        from unnest('{id,source,type}'::text[]) r (name)
        where jsonb_typeof(p_event -> r.name) is distinct from 'string' or p_event ->> r.name = '' limit 1;
    end if;
    if v_wrong is null then
        select format('attribute "%s" breaks the rules', a.key) into v_wrong
        from jsonb_each(p_event) a
        where a.key not in ('data', 'data_base64')
                and (a.key !~ '^[a-z0-9]+$' or jsonb_typeof(a.value) in ('object', 'array'))
            or a.key in ('subject', 'time', 'datacontenttype', 'dataschema', 'partitionkey', 'data_base64')
                and (jsonb_typeof(a.value) not in ('string', 'null') or a.value = '""' and a.key <> 'data_base64')
            or a.key = 'time' and a.value #>> '{}' !~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$'
        limit 1;
    end if;
    if v_wrong is not null then
        raise exception 'not a CloudEvents 1.0 event: %', v_wrong
            using errcode = 'HR311', hint = 'It needs specversion "1.0", id, source and type; names are a-z and 0-9.';
    end if;
    return p_event;
end
$$;
