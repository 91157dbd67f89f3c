-- name: attempts
-- Selects the failed attempts of some actions, oldest first. Index: attempt_action.
select a.action_id, a.action, a.attempt, a.error, a.traceback, a.follows, a.retry_at, a.duration_s, a.node_id, a.failed_at, a.attempts_max
from headrace.attempt a
where a.action_id = any (%(action_ids)s::uuid[])
    and a.namespace = headrace.current_namespace(%(namespace)s)
order by a.failed_at;

-- name: dead_actions
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

-- name: dead_events
-- Dead letters of consumers, by position: of a namespace, a topic, a consumer, or one position; where asked also those that
-- are redriven or discarded.
select 'event' as kind, concat_ws('/', t.topic, c.consumer, d.position) as id, t.namespace, t.topic || '/' || c.consumer as source,
    d.event_id as original_id, d.type as name, d.key, coalesce(d.edited_payload, d.payload) as payload,
    d.edited_payload is not null as edited, d.payload as original_payload, d.state,
    d.reason, d.error, d.error_group, d.traceback, d.attempts, d.buried_at,
    null::timestamptz as redriven_at, null::jsonb as envelope, d.partition, d.position, d.headers
from headrace.event_dead_letter d
join headrace.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or t.topic = %(topic)s)
    and (%(consumer)s::text is null or c.consumer = %(consumer)s)
    and (%(position)s::bigint is null or d.position = %(position)s)
    and (%(ended)s or d.state in ('dead', 'behind', 'redrive'))
order by t.topic, c.consumer, d.position
limit %(limit)s;

-- name: dead_letter_groups
-- Open dead letters counted by source, action, reason and error group: of actions, then of consumers, the largest groups first.
select g.kind, g.source, g.name, g.reason, g.error_group, g.dead + g.marked as dead, g.is_more, g.first_at, g.last_at, g.example_id
from headrace.count_dead_letters(100000, p_namespace => %(namespace)s) g
order by g.kind, g.dead + g.marked desc, g.source, g.name, g.error_group;

-- name: pauses
-- What is paused in a namespace, by kind and name.
select p.namespace, p.kind, p.name, p.reason, p.paused_at, p.paused_by
from headrace.pause p
where p.namespace = headrace.current_namespace(%(namespace)s)
order by p.kind, p.name;

-- name: queued
-- Selects the actions in a namespace's queue, oldest first. Indexes: see headrace.queued_actions.
select a.action_id, a.action, a.key, a.state, a.priority, a.attempts, a.attempts_max, a.sent_at, a.due_at, a.error, a.failed_at,
    a.producer, a.cause, a.unique_key, a.payload
from headrace.queued_actions(%(action)s, %(key)s, %(state)s, %(older_than)s, %(ids)s, %(limit)s, %(namespace)s) a;

-- name: results
-- Selects the results of some actions, oldest first. Index: action_result_action.
select r.action_id, r.action, r.outcome, r.attempts, r.duration_s, r.node_id, r.ended_at, r.event_id
from headrace.action_result r
where r.action_id = any (%(action_ids)s::uuid[])
    and r.namespace = headrace.current_namespace(%(namespace)s)
order by r.ended_at;
