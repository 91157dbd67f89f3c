-- Is the current role the owner of headrace, one of its members, or a superuser? The public views show it every namespace.
create or replace function headrace_internal.caller_is_owner() returns boolean
language sql stable
as $$
    select pg_has_role(current_user, n.nspowner, 'usage') from pg_namespace n where n.nspname = 'headrace_internal'
$$;
