-- The instances whose timers are due by a settled time, the earliest first. Index: correlator_instance_due.
select i.key, i.units, i.deadlines, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline <= %(settled)s
order by i.deadline limit %(max)s;
