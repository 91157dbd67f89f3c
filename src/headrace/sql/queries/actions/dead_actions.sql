-- Dead letters of actions, oldest first: all, of one name, of one error group, of some actions, or those with an id; then, where
-- asked, those that were redriven.
select 'action' as kind, d.dead_letter_id::text as id, headrace.current_namespace(%(namespace)s) as namespace, 'queue' as source,
    d.action_id as original_id, d.action as name, d.key, d.payload, d.edited, d.envelope -> 'payload' as original_payload,
    case when s.redriven then 'redriven' else 'dead' end as state,
    d.reason, d.error, d.error_group, d.traceback, d.attempts, d.buried_at, d.redriven_at, d.envelope
from (values (false), (true)) s (redriven)
cross join lateral headrace.action_dead_letters(
    %(ids)s, %(action)s, %(error)s, p_redriven => s.redriven, p_limit => %(limit)s, p_namespace => %(namespace)s,
    p_actions => %(actions)s) d
where %(ended)s or not s.redriven
order by s.redriven, d.dead_letter_id;
