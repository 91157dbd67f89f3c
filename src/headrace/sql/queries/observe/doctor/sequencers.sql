-- The nodes alive that run a sequencer, by name.
-- Not from pg_stat_activity: a node's sessions are shared by its loops, so their last query says little.
select n.name
from headrace_internal.node n
where n.sequencer and n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds'
order by n.name;
