-- The value of a compiled condition, or of an expression of several, for one event. p_filter is executed: it must be what the condition
-- language has printed, never a user's text. The caller pins the search path.
create or replace function headrace_internal.evaluate_filter(
    p_filter text, p_type text, p_key text, p_payload jsonb, p_headers jsonb, p_emitted_at timestamptz
) returns boolean
language plpgsql stable
as $$
declare
    v_answer boolean;
begin
    execute format('select %s from (select $1 as type, $2 as key, $3 as payload, $4 as headers, $5 as emitted_at) e', p_filter)
    into v_answer using p_type, p_key, p_payload, p_headers, p_emitted_at;
    return v_answer;
end
$$;
