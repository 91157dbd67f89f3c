-- Lets a role publish in a namespace, consume in it, or do everything in it ('admin'). The owner's to call.
-- Give an application's role one namespace, and make it the default of its sessions: alter role … set headrace.namespace = …
create or replace function headrace.grant_namespace(p_role text, p_namespace text, p_level text) returns void
language plpgsql volatile
as $$
begin
    perform headrace.namespace_exists(p_namespace);
    insert into headrace.namespace_grant (role, namespace, level)
    values (headrace.existing_role(p_role), p_namespace, p_level)
    on conflict on constraint namespace_grant_pkey do nothing;
    perform headrace.apply_grants(headrace.existing_role(p_role));
end
$$;

-- Takes a level in a namespace away from a role; all levels when none is named.
create or replace function headrace.revoke_namespace(p_role text, p_namespace text, p_level text default null) returns void
language plpgsql volatile
as $$
begin
    delete from headrace.namespace_grant g
    where g.role = headrace.existing_role(p_role) and g.namespace = p_namespace and g.level = coalesce(p_level, g.level);
    perform headrace.apply_grants(headrace.existing_role(p_role));
end
$$;

-- The role of a name; raises HR132 when there is none.
create or replace function headrace.existing_role(p_role text) returns regrole
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
