-- name: checked
-- Selects the schemas of a namespace that payloads are checked by, with their digest: one statement, so that the two belong together.
select event_type, validation, schema::text, namespace_digest::text
from headrace.event_schema
where namespace = headrace.current_namespace(%(namespace)s) and validation <> 'off'
order by event_type;

-- name: definitions
-- Selects the rules of an event type, and the correlators and relays of a namespace: which types these read is in their texts.
select 'rule' as kind, rule as name, topic, condition as text, null::jsonb as mapping from headrace.rule
where namespace = headrace.current_namespace(%(namespace)s) and event_type = %(event_type)s
union all
select 'correlator', correlator, topic, pattern, null from headrace.correlator where namespace = headrace.current_namespace(%(namespace)s)
union all
select 'relay', relay, topic, condition, mapping from headrace.relay where namespace = headrace.current_namespace(%(namespace)s)
order by name;

-- name: sample
-- Selects the newest payloads of an event type in a topic's log, among the last %(scanned)s positions. Index: log_position, backwards.
select l.payload::text as payload
from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.type = %(event_type)s
    and l.position > (select h.position - %(scanned)s from headrace.log_head(headrace.topic_id(%(topic)s, %(namespace)s)) h)
order by l.position desc
limit %(sample)s;

-- name: schemas
-- Selects the current schemas of a namespace: all, or that of one event type.
select event_type, version, schema::text as text, compatibility, validation, check_is_complete, written_at, written_by
from headrace.event_schema
where namespace = headrace.current_namespace(%(namespace)s) and (%(event_type)s::text is null or event_type = %(event_type)s)
order by event_type;

-- name: types_by_topic
-- Selects the event types of each topic, or of one: those of its rules and those among its newest events, %(scanned)s positions of each log.
select t.topic, n.type
from headrace.topic t
cross join lateral (
    select r.event_type as type from headrace.rule r where r.namespace = t.namespace and r.topic = t.topic
    union
    select l.type from headrace.log l
    where l.topic_id = t.topic_id and l.position > (select h.position - %(scanned)s from headrace.log_head(t.topic_id) h)) n
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
order by t.topic, n.type;

-- name: versions
-- Selects the versions of an event type's schema, oldest first.
select event_type, version, schema::text as text, compatibility, forced, written_at, written_by
from headrace.event_schema_version
where namespace = headrace.current_namespace(%(namespace)s) and event_type = %(event_type)s
order by version;
