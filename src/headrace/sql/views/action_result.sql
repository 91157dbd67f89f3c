-- Actions that have ended.
create or replace view headrace.action_result with (security_barrier) as
select r.ended_at, r.action_id, r.node_id, r.duration_s, r.attempts, r.namespace, r.action, r.outcome,
    -- As headrace_internal.uuid_or_null, which a reader may not call.
    case when r.event_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then r.event_id::uuid end as event_id
from headrace_internal.action_result r
where r.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
