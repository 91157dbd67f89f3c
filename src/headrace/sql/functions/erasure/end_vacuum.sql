-- Records that VACUUM has removed the old row versions of an erasure from some tables. Takes the level admin: to everybody else
-- there is no such erasure (HR100). Locks: the erasure's row. Index: erasure_pkey.
create or replace function headrace.end_vacuum(
    p_erasure_id bigint, p_tables text[], p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'admin');
begin
    update headrace_internal.erasure e
    set tables = array(select t.name from unnest(e.tables) t (name) where t.name <> all (p_tables))
    where e.erasure_id = p_erasure_id and e.namespace = any (v_namespaces);
    if not found then
        raise exception 'there is no erasure %', p_erasure_id using errcode = 'HR100', hint = 'See: headrace topic erasures.';
    end if;
end
$$;
