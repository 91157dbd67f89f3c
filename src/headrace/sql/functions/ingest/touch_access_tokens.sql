-- Records that access tokens were used: servers of HTTP call it once a minute. Leaves out tokens of namespaces in which the caller
-- holds no level. Locks: the rows, skip locked. Index: access_token_pkey.
create or replace function headrace.touch_access_tokens(p_token_ids bigint[], p_caller headrace_internal.caller default current_user)
returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'any');
begin
    update headrace_internal.access_token t set last_used_at = headrace.clock()
    where t.token_id in (
        select o.token_id from headrace_internal.access_token o
        where o.token_id = any (p_token_ids) and o.namespace = any (v_namespaces)
        order by o.token_id for no key update skip locked);
end
$$;
