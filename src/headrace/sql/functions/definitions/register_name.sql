-- Registers an event type or action, or changes its description. p_kind is 'event_type' or 'action'. Takes the level admin.
create or replace function headrace.register_name(
    p_kind text, p_name text, p_description text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    if p_kind = 'event_type' then
        insert into headrace_internal.event_type as r (namespace, event_type, description) values (v_namespace, p_name, p_description)
        on conflict on constraint event_type_pkey do update set description = excluded.description where excluded.description is not null;
    elsif p_kind = 'action' then
        insert into headrace_internal.action as r (namespace, action, description) values (v_namespace, p_name, p_description)
        on conflict on constraint action_pkey do update set description = excluded.description where excluded.description is not null;
    else
        raise exception '% is not a kind of name', coalesce(quote_literal(p_kind), 'null')
            using errcode = 'HR300', hint = 'Choose event_type or action.';
    end if;
end
$$;
