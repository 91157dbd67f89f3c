-- Creates a namespace. Raises HR231 if it exists already.
create or replace function headrace.create_namespace(p_namespace text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into headrace_internal.namespace (namespace) values (p_namespace) on conflict on constraint namespace_pkey do nothing;
    if not found then
        raise exception 'namespace "%" already exists', p_namespace
            using errcode = 'HR231', hint = 'Use it, or choose another name.';
    end if;
end
$$;
