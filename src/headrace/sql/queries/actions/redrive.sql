-- Sends dead letters to the queue again.
select headrace.redrive_actions(%(ids)s, %(action)s, %(error)s, p_namespace => %(namespace)s);
