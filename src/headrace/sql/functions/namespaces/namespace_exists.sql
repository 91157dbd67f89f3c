-- Raises HR131 if a namespace does not exist.
create or replace function headrace_internal.namespace_exists(p_namespace text) returns void
language plpgsql stable
as $$
declare
    v_known text;
begin
    if not exists (select from headrace_internal.namespace n where n.namespace = p_namespace) then
        select string_agg(n.namespace, ', ' order by n.namespace) into v_known
        from (select namespace from headrace_internal.namespace order by namespace limit 10) n;
        raise exception 'there is no namespace "%"', p_namespace
            using errcode = 'HR131',
                hint = format('Create it: select headrace.create_namespace(%L). Known namespaces: %s.', p_namespace, v_known);
    end if;
end
$$;
