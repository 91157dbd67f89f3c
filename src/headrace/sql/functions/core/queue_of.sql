-- The name of a namespace's action queue in pgmq. Raises HR131 if there is no such namespace. Index: namespace_pkey.
create or replace function headrace_internal.queue_of(p_namespace text) returns text
language plpgsql stable
as $$
declare
    v_queue text;
begin
    select headrace_internal.queue_for(n.namespace, n.namespace_id) into v_queue
    from headrace_internal.namespace n where n.namespace = p_namespace;
    if v_queue is null then
        perform headrace_internal.namespace_exists(p_namespace);
    end if;
    return v_queue;
end
$$;
