-- The name of a namespace's action queue in pgmq, for the owner's own queries. Takes any level.
create or replace function headrace.queue_name(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns text
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
begin
    return headrace_internal.queue_of(v_namespace);
end
$$;
