-- Sends one action.
select headrace.send_action(
    %(action)s, %(payload)s::jsonb, p_key => %(key)s, p_priority => %(priority)s, p_delay => %(delay)s, p_namespace => %(namespace)s,
    p_id => %(id)s, p_event_type => %(event_type)s, p_producer => %(producer)s);
