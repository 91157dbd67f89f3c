-- Raises 42501 when the caller does not hold the level in the namespace of a topic, consumer, dead letter, relay, schedule or
-- access token. An id that does not exist, and a null caller, give the same error. The first statement of functions that run as the owner and take an id.
create or replace function headrace_internal.authorize_id(p_caller name, p_level text, p_kind text, p_id bigint) returns void
language plpgsql stable
as $$
declare
    v_namespace text;
begin
    if p_caller = current_user then
        return;
    end if;
    v_namespace := case p_kind
        when 'topic' then (select t.namespace from headrace_internal.topic t where t.topic_id = p_id)
        when 'relay' then (select r.namespace from headrace_internal.relay r where r.relay_id = p_id)
        when 'schedule' then (select s.namespace from headrace_internal.schedule s where s.schedule_id = p_id)
        when 'access token' then (select a.namespace from headrace_internal.access_token a where a.token_id = p_id)
        when 'consumer' then (
            select t.namespace from headrace_internal.consumer c join headrace_internal.topic t on t.topic_id = c.topic_id where c.consumer_id = p_id)
        when 'dead letter' then (
            select t.namespace from headrace_internal.dead_letter d
            join headrace_internal.consumer c on c.consumer_id = d.consumer_id
            join headrace_internal.topic t on t.topic_id = c.topic_id where d.dead_letter_id = p_id) end;
    -- The consumers of rules and correlators belong to these, whose administrators alone may touch them.
    if p_kind = 'consumer' and exists (
            select from headrace_internal.consumer c where c.consumer_id = p_id and c.consumer like 'headrace.%') then
        p_level := 'admin';
    end if;
    if v_namespace is null or headrace_internal.holds_level(p_caller, p_level, v_namespace) is not true then
        raise exception 'permission denied for % %', p_kind, p_id
            using errcode = '42501', hint = format('It takes the level %s in its namespace: see headrace.grant_namespace.', p_level);
    end if;
end
$$;
