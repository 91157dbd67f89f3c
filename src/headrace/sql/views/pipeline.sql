-- Pipelines.
create or replace view headrace.pipeline with (security_barrier) as
select p.topic_id, p.run_id, p.process, p.master, p.started_at, p.heartbeat_at, p.stopped_at, p.batches, p.events,
    p.firings, p.outputs, p.error
from headrace_internal.pipeline p
where p.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
