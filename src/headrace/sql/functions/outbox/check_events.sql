-- Rejects anything but an array of events with known members and topics. With p_missing_ok it returns false for an unknown topic
-- instead of raising an error.
create or replace function headrace_internal.check_events(p_events jsonb, p_namespace text, p_missing_ok boolean) returns boolean
language plpgsql stable
as $$
declare
    v_bad text;
begin
    if jsonb_typeof(p_events) is distinct from 'array' then
        raise exception 'events are %, not an array', coalesce(jsonb_typeof(p_events), 'missing')
            using errcode = 'HR300', hint = 'Pass a JSON array of objects with topic, type and payload.';
    end if;
    select case when m.member is null then format('an event is %s, not an object', jsonb_typeof(e.event))
        else format('an event has an unknown member "%s"', m.member) end into v_bad
    from jsonb_array_elements(p_events) e (event)
    left join lateral jsonb_object_keys(case when jsonb_typeof(e.event) = 'object' then e.event else '{}' end) m (member) on true
    where jsonb_typeof(e.event) <> 'object'
        or m.member not in ('topic', 'type', 'payload', 'key', 'headers', 'id', 'emitted_at', 'producer')
    limit 1;
    if found then
        raise exception '%', v_bad
            using errcode = 'HR300',
                hint = 'Its members are topic, type, payload, key, headers, id, emitted_at and producer.';
    end if;
    select coalesce(e.event ->> 'topic', '') into v_bad
    from jsonb_array_elements(p_events) e (event)
    left join headrace_internal.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = e.event ->> 'topic'
    where t.topic_id is null
    limit 1;
    if found and not p_missing_ok then
        perform headrace_internal.raise_unknown_topic(v_bad, p_namespace);
    end if;
    return not found;
end
$$;
