-- True for an admin of the namespace; anybody else gets 42501. The WHEN condition of triggers that run as the owner before a row
-- is written: PostgreSQL evaluates it as the role that writes. Row-level security would come too late: it is checked after them.
create or replace function headrace_internal.may_write(
    p_namespace text, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return headrace_internal.authorize(p_caller, 'admin', p_namespace) is not null;
end
$$;
