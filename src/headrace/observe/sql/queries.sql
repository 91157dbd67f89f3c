-- name: action_cause
-- What sent an action that has left the queue, by the event: the firing of a rule or the output of a correlator. In the form of the
-- action's cause. Indexes: firing_once, log_event_id, correlation_position.
select 'rule' as kind, v.rule, null as correlator, v.version, t.topic, f.position, f.event_id::text as event_id, f.firing_id
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
join headrace.topic t on t.topic_id = f.topic_id
where f.event_id = %(event_id)s and f.action_id = %(action_id)s and t.namespace = headrace.current_namespace(%(namespace)s)
union all
select 'correlator', null, v.correlator, v.version, t.topic, c.position, c.event_id::text, null
from headrace.log l
join headrace.correlation c on c.topic_id = l.topic_id and c.position = l.position
join headrace.correlator_version v on v.version_id = c.version_id
join headrace.topic t on t.topic_id = c.topic_id
where l.event_id = %(event_id)s and c.output_id = %(action_id)s and t.namespace = headrace.current_namespace(%(namespace)s)
limit 1;

-- name: consumers
-- Selects how far each consumer of a topic is with one event: its dead letter if there is one, else whether its cursor has passed the event.
-- A cursor that passed it while the consumer is younger than the event may have started behind it. Indexes: cursor_pkey,
-- dead_letter_once.
select c.consumer, u.position, coalesce(nodes.nodes, 0) as nodes, u.error, u.retry_at,
    case when d.state = 'dead' then 'dead letter' when d.state = 'behind' then 'waits behind a dead letter'
        when d.state = 'redrive' then 'will be redriven' when d.state = 'redriven' then 'handled, after a redrive'
        when d.state = 'discarded' then 'discarded'
        when u.position >= %(position)s::bigint and c.created_at > %(appended_at)s then 'passed'
        when u.position >= %(position)s::bigint then 'handled'
        when u.state = 'stopped' then 'stopped'
        when nodes.nodes = 0 then 'idle' when u.retry_at is not null then 'retrying' else 'waiting' end as state
from headrace.consumer c
join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition in (-1, %(partition)s)
left join headrace.event_dead_letter d on d.consumer_id = c.consumer_id and d.position = %(position)s::bigint
cross join lateral (
    select count(*) as nodes from headrace.node_state n
    where n.state = 'alive' and n.namespace = %(namespace)s and n.consumers @> array[%(topic)s::text || '/' || c.consumer]
) nodes
where c.topic_id = %(topic_id)s and %(position)s::bigint is not null and c.consumer not like 'headrace.%%'
order by c.consumer;

-- name: event
-- Selects an event by its id: in the log, or else in the outbox. `passed`: the rules have handled it.
-- The outbox is scanned, because it is short.
with logged as materialized (
    select f.topic_id, f.position from headrace.find_event(%(event_id)s, %(namespace)s) f
)
select t.topic_id, t.namespace, t.topic, {stored l}, l.payload::text as payload_text, l.headers::text as headers_text,
    coalesce((select u.position >= l.position
        from headrace.consumer c join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
        where c.topic_id = t.topic_id and c.consumer = 'headrace.rules'), false) as passed
from (
    select g.topic_id, {stored l}
    from logged g cross join lateral headrace.read_log(g.topic_id, g.position - 1, 1) l
    union all
    select o.topic_id, {stored o}
    from (select w.*, null::bigint as position, null::integer as partition, null::timestamptz as appended_at from headrace.outbox w) o
    where o.event_id = %(event_id)s and not exists (select from logged g where g.topic_id = o.topic_id)
) l
join headrace.topic t on t.topic_id = l.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.topic;

-- name: failures
-- Why an event may be stuck: failures of the sequencer (without a position) or of the rules and correlators of its topic.
-- Indexes: failure_pkey, cursor_pkey.
select f.kind || ' ' || f.name as what, f.error, f.failures, f.retry_at
from headrace.failure f
where f.namespace = %(namespace)s and case when %(position)s::bigint is null then f.kind = 'sequence' and f.name = %(topic)s
    else (f.kind in ('rules', 'rule compilation') and f.name = %(topic)s)
        or (f.kind in ('correlator', 'correlator compilation')
            and f.name in (select c.correlator from headrace.correlator c where c.namespace = f.namespace and c.topic = %(topic)s))
        or (f.kind = 'rule' and f.name in (select r.rule from headrace.rule r where r.namespace = f.namespace and r.topic = %(topic)s)) end
union all
select 'consumer ' || c.consumer, u.error, u.attempts, u.retry_at
from headrace.consumer c
join headrace.cursor u on u.consumer_id = c.consumer_id
where c.topic_id = %(topic_id)s and u.error is not null and u.position < %(position)s::bigint
    and (u.partition = -1 or u.partition = %(partition)s)
order by 1;

-- name: firings
-- Selects the firings on an event. Index: firing_once.
select f.firing_id, v.rule, v.version, v.timing, f.action, f.action_id, f.fired_at
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
where f.event_id = %(event_id)s and f.topic_id = %(topic_id)s
order by f.firing_id;

-- name: outputs
-- What correlators produced on an event, and what their timers produced later with the event among the evidence.
-- Indexes: correlation_position; for timers correlation_timer, from the event's time on.
select f.correlation_id, v.correlator, v.version, f.key, f.token, f.becomes, f.name, f.output_id, f.evidence, f.fired_at, f.position is null as timer
from headrace.correlation f
join headrace.correlator_version v on v.version_id = f.version_id
where f.topic_id = %(topic_id)s and (f.position = %(position)s
    or (f.position is null and f.output_at >= %(appended_at)s and f.evidence @> array[%(position)s::bigint]))
order by f.correlation_id;

-- name: rule_versions
-- Selects the rule versions that were active at a position; for an event without a position, the ones active now. Index: rule_version_in_force.
select v.rule, v.version, v.event_type, v.condition, v.timing
from headrace.rule_version v
where v.topic_id = %(topic_id)s and v.since_position is not null
    and case when %(position)s::bigint is null then v.until_position is null
        else v.since_position <= %(position)s and (v.until_position is null or v.until_position >= %(position)s) end
order by v.rule, v.version;
