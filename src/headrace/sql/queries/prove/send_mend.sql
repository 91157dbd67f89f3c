-- Sends an action that fails until it was redriven.
select headrace.send_action(%(action)s, p_id => %(id)s);
