-- A page of the dead letters of one group, after a place. See headrace.read_dead_letters.
select %(kind)s as kind, d.place, d.id, d.original_id, d.name, d.key, d.payload, d.edited, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace.read_dead_letters(
    %(kind)s, %(source)s, %(name)s, %(reason)s, %(error)s, p_after => %(after)s, p_limit => %(limit)s, p_open => %(open)s,
    p_namespace => %(namespace)s) d;
