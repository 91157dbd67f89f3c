-- name: firings
-- Selects the firings of a namespace's rules, oldest first, with their events. Index: firing_once.
select v.rule, v.version, t.topic, f.position, f.event_id, f.action, f.action_id, f.fired_at
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
join headrace.topic t on t.topic_id = f.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(rule)s::text is null or v.rule = %(rule)s)
order by f.firing_id

-- name: next_tick
-- Selects the next moment, up to now, at which a ticker would have fired or planned a schedule; null if there is none.
-- Index: schedule_due_pkey.
select min(w.moment)
from headrace_internal.schedule s
left join lateral (
    select d.tick_at from headrace_internal.schedule_due d where d.schedule_id = s.schedule_id order by d.tick_at limit 1
) n on true
cross join lateral (values (n.tick_at), (s.replan_at)) w (moment)
where s.active and isfinite(w.moment) and w.moment <= headrace.clock()

-- name: results
-- Selects the newest result of each action of a namespace that has ended, oldest first.
select r.action_id, r.action, r.outcome, r.attempts
from (
    select distinct on (r.action_id) r.action_id, r.action, r.outcome, r.attempts, r.ended_at
    from headrace.action_result r
    where r.namespace = headrace.current_namespace(%(namespace)s)
    order by r.action_id, r.ended_at desc
) r
order by r.ended_at, r.action_id

-- name: set_clock
-- Sets headrace's clock for this session to a moment and returns the setting of before.
select current_setting('headrace.clock_shift', true), set_config('headrace.clock_shift',
    (%(moment)s::timestamptz - headrace.clock()
        + coalesce(nullif(current_setting('headrace.clock_shift', true), '')::interval, interval '0'))::text, %(is_local)s)
