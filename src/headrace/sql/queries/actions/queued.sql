-- The actions in a namespace's queue, oldest first. Indexes: see headrace.queued_actions.
select a.action_id, a.action, a.key, a.state, a.priority, a.attempts, a.attempts_max, a.sent_at, a.due_at, a.error, a.failed_at,
    a.producer, a.cause, a.unique_key, a.payload
from headrace.queued_actions(%(action)s, %(key)s, %(state)s, %(older_than)s, %(ids)s, %(limit)s, %(namespace)s) a;
