-- Revokes an access token; servers reject it a few seconds later at most. Its row stays, for the record. Raises HR160 if there is
-- none in use with this name. Takes the level admin. Index: access_token_name_unique.
create or replace function headrace.revoke_access_token(
    p_name text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    update headrace_internal.access_token t set revoked_at = headrace.clock()
    where t.namespace = v_namespace and t.name = p_name and t.revoked_at is null;
    if not found then
        raise exception 'there is no access token "%" in namespace "%"', p_name, v_namespace
            using errcode = 'HR160', hint = 'See: headrace token list.';
    end if;
end
$$;
