-- The outputs of correlators over Spark's streaming frames, in no order.
create or replace view headrace.stream_output with (security_barrier) as
select s.namespace, s.stream, o.correlator, o.version, o.key, o.token, o.position, o.output_at, o.place, o.evidence, o.evidence_total,
    o.captured, o.written_at
from headrace_internal.stream_output o
join headrace_internal.stream s on s.stream_id = o.stream_id
where s.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
