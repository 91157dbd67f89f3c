-- headrace.publish for a role of a namespace: checks its level, then publishes with the owner's rights.
create or replace function headrace.publish_as_role(
    p_topic      text,
    p_type       text,
    p_payload    jsonb,
    p_key        text,
    p_headers    jsonb,
    p_event_id   uuid,
    p_emitted_at timestamptz,
    p_producer   text,
    p_namespace  text,
    p_caller     headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_topic);
begin
    return headrace.publish(p_topic, p_type, p_payload, p_key, p_headers, p_event_id, p_emitted_at, p_producer, v_namespace);
end
$$;
