-- Dead letters of actions, oldest first.
select d.dead_letter_id, d.action_id, d.action, d.key, d.payload, d.edited, d.reason, d.error, d.error_group, d.traceback, d.attempts,
    d.buried_at, d.redriven_at, d.envelope
from headrace.action_dead_letters(
    %(ids)s, %(action)s, %(error)s, p_redriven => %(redriven)s, p_limit => %(limit)s, p_namespace => %(namespace)s) d;
