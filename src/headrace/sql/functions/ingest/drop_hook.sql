-- Drops a hook; its events stay. Raises HR161 if there is no such hook. Takes the level admin.
create or replace function headrace.drop_hook(
    p_hook text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    delete from headrace_internal.hook h where h.namespace = v_namespace and h.hook = p_hook;
    if not found then
        raise exception 'there is no hook "%" in namespace "%"', p_hook, v_namespace
            using errcode = 'HR161', hint = 'See: headrace hook list.';
    end if;
end
$$;
