-- The id of a topic; raises HR101 when there is none.
create or replace function headrace_internal.topic_id(p_topic text, p_namespace text default null) returns integer
language plpgsql stable
as $$
declare
    v_topic_id integer;
begin
    select t.topic_id into v_topic_id
    from headrace.topic t where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic;
    if v_topic_id is null then
        perform headrace_internal.raise_unknown_topic(p_topic, p_namespace);
    end if;
    return v_topic_id;
end
$$;
