-- Actions that have ended.
create or replace view headrace.action_result with (security_barrier) as
select r.ended_at, r.action_id, r.node_id, r.duration_s, r.attempts, r.namespace, r.action, r.outcome,
    -- This does what headrace_internal.uuid_or_null does, which a reader may not call.
    case when r.event_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then r.event_id::uuid end as event_id
from headrace_internal.action_result r
where r.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- Failed attempts of actions.
create or replace view headrace.attempt with (security_barrier) as
select a.failed_at, a.action_id, a.node_id, a.duration_s, a.attempt, a.namespace, a.action, a.error, a.traceback,
    a.follows, a.retry_at, a.attempts_max
from headrace_internal.attempt a
where a.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- What is paused: consumers (also the rules of a topic), rules, correlators, relays, actions, queues and schedules.
create or replace view headrace.pause with (security_barrier) as
select p.namespace, p.kind, p.name, p.reason, p.paused_at, p.paused_by
from (
    select p.namespace, p.kind, p.name, p.reason, p.paused_at, p.paused_by from headrace_internal.pause p
    union all
    select s.namespace, 'schedule', s.schedule, null, null, null from headrace_internal.schedule s where not s.active
) p
where p.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- All dead letters: events of consumers and actions of queues, with the payload that a redrive delivers.
create or replace view headrace.dead_letter with (security_barrier) as
select t.namespace, 'event' as kind, d.dead_letter_id, t.topic || '/' || c.consumer as source, d.event_id as id, d.type as name, d.key,
    coalesce(d.edited_payload, d.payload) as payload, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace_internal.dead_letter d
join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace_internal.topic t on t.topic_id = c.topic_id
where d.state in ('dead', 'behind', 'redrive') and t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume')
union all
select n.namespace, 'action', a.dead_letter_id, 'queue', a.action_id, a.action, a.key, a.payload, 'dead', a.reason, a.error, a.attempts, a.buried_at
from (
    -- "offset 0": the function must not be called for a namespace in which the reader may only publish.
    select k.namespace from headrace_internal.caller_level k where k.level = 'consume' offset 0
) n
cross join lateral headrace.action_dead_letters(p_namespace => n.namespace) a;
