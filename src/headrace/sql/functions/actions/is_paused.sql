-- Is an action paused, by its name or with the whole queue? Index: pause_pkey.
create or replace function headrace.is_paused(
    p_action text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
begin
    return cardinality(headrace_internal.unpaused_actions(v_namespace, array[p_action])) = 0;
end
$$;
