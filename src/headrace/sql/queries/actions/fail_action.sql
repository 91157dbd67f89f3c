-- Records a failed attempt of an action.
select headrace.fail_action(
    %(msg_id)s, %(attempt)s, %(attempts_max)s, %(backoff_s)s, %(backoff_max_s)s, %(error)s, %(traceback)s, %(duration_s)s::real,
    %(node_id)s, %(namespace)s);
