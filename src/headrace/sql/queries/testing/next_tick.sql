-- The next moment, up to now, at which a ticker would have fired or planned a schedule; null if there is none.
-- Index: schedule_due_pkey.
select min(w.moment)
from headrace_internal.schedule s
left join lateral (
    select d.tick_at from headrace_internal.schedule_due d where d.schedule_id = s.schedule_id order by d.tick_at limit 1
) n on true
cross join lateral (values (n.tick_at), (s.replan_at)) w (moment)
where s.active and isfinite(w.moment) and w.moment <= headrace.clock()
