-- Sends an action with a delay and a unique key.
select headrace.send_action(%(action)s, p_id => %(id)s, p_unique_key => %(unique_key)s, p_delay => make_interval(secs => %(delay_s)s));
