-- The role of a name; raises HR132 if it does not exist.
create or replace function headrace_internal.existing_role(p_role text) returns regrole
language plpgsql stable
as $$
declare
    v_role regrole := (select r.oid from pg_roles r where r.rolname = p_role or quote_ident(r.rolname) = p_role limit 1);
begin
    if v_role is null then
        raise exception 'there is no role "%"', p_role
            using errcode = 'HR132', hint = format('Create it: create role %I login.', p_role);
    end if;
    return v_role;
end
$$;
