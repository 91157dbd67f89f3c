-- The id of a topic; raises HR101 if it does not exist.
create or replace function headrace.topic_id(
    p_topic text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace, p_topic);
    v_topic_id  integer;
begin
    select t.topic_id into v_topic_id
    from headrace_internal.topic t where t.namespace = v_namespace and t.topic = p_topic;
    if v_topic_id is null then
        perform headrace_internal.raise_unknown_topic(p_topic, v_namespace);
    end if;
    return v_topic_id;
end
$$;
