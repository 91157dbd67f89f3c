-- The current schemas of event types. check_is_complete: does the database check every rule of it? namespace_digest changes with every
-- schema of the namespace that payloads are checked by.
create or replace view headrace.event_schema with (security_barrier) as
select s.namespace, s.event_type, s.version, s.schema, s.compatibility, s.validation, s.check_is_complete, v.written_at, v.written_by,
    -- The same in every topic of the namespace; null without one.
    (select t.schemas_digest from headrace_internal.topic t where t.namespace = s.namespace limit 1) as namespace_digest
from headrace_internal.event_schema s
join headrace_internal.event_schema_version v
    on v.namespace = s.namespace and v.event_type = s.event_type and v.version = s.version
where s.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');

-- All versions of the schemas of event types.
create or replace view headrace.event_schema_version with (security_barrier) as
select v.namespace, v.event_type, v.version, v.schema, v.compatibility, v.forced, v.written_at, v.written_by
from headrace_internal.event_schema_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');
