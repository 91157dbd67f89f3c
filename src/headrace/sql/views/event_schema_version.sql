-- All versions of the schemas of event types.
create or replace view headrace.event_schema_version with (security_barrier) as
select v.namespace, v.event_type, v.version, v.schema, v.compatibility, v.forced, v.written_at, v.written_by
from headrace_internal.event_schema_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');
