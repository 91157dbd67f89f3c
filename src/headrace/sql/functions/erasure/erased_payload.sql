-- What is left of a payload. Without fields: an empty object. With fields, such as 'email' or 'customer.name': null in their place.
-- An output of a correlator quotes an event, whose fields may be anywhere in it: it loses the quotation as a whole.
create or replace function headrace_internal.erased_payload(p_payload jsonb, p_fields text[], p_is_output boolean default false)
returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_payload jsonb := p_payload;
    v_field   text;
begin
    if p_fields is null then
        return '{}';
    end if;
    if jsonb_typeof(p_payload) <> 'object' then
        return p_payload;
    end if;
    if p_is_output then
        return p_payload || jsonb_build_object('payload', null, 'key', null)
            || case when p_payload ? 'captured' then jsonb_build_object('captured', '{}'::jsonb) else '{}' end;
    end if;
    foreach v_field in array p_fields loop
        v_payload := jsonb_set(v_payload, string_to_array(v_field, '.'), 'null', false);
    end loop;
    return v_payload;
end
$$;
