-- Rejects outputs of tokens that do not occur in the pattern's text (HR342). A token that occurs there but is never pushed is found
-- when a node compiles the pattern, and the correlator is marked invalid. So is a pattern that pushes nothing: it may be malformed, and
-- only the compiler can say where.
create or replace function headrace_internal.check_output_tokens(p_pattern text, p_outputs jsonb) returns void
language plpgsql immutable
as $$
declare
    v_token text;
begin
    select o.token into v_token from jsonb_object_keys(p_outputs) o (token) 
    where p_pattern ~ '\mpush\M' and strpos(p_pattern, o.token) = 0 limit 1;
    if found then
        raise exception 'output "%" is of a token that the pattern does not push', v_token
            using errcode = 'HR342', hint = format('Write push(%s) {…} in the pattern, correct the token, or remove the output.', v_token);
    end if;
end
$$;
