-- Topics.
create or replace view headrace.topic with (security_barrier) as
select t.topic_id, t.namespace, t.topic, t.partitions, t.time_partition, t.clock, t.retention, t.archive, t.dropped_to,
    t.log_until, t.asleep, t.timers_to, t.engine, t.created_at
from headrace_internal.topic t
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');

-- Committed events that are not yet sequenced. A role without the level consume sees that they wait, not what they say.
create or replace view headrace.outbox with (security_barrier) as
select o.id, o.topic_id, o.event_id, o.emitted_at,
    case when k.consumes then o.type end as type,
    case when k.consumes then o.key end as key,
    case when k.consumes then o.payload end as payload,
    case when k.consumes then o.headers end as headers,
    case when k.consumes then o.producer end as producer
from headrace_internal.outbox o
join (
    select t.topic_id, bool_or(t.level = 'consume') as consumes from headrace_internal.caller_topic t group by t.topic_id
) k on k.topic_id = o.topic_id;

-- Publishes by a plain INSERT for roles that may insert into the outbox anyway: the rule turns it into one INSERT … SELECT with the look-up
-- of the topic. It shows no rows. The library publishes by such a statement where that is possible: a function around it costs more. Limits
-- are not checked here; whoever may insert into the outbox could write past them anyway. For any other role, for an unknown topic, for a
-- topic with inline rules and for a payload that breaks the schema of its type, the statement inserts nothing and raises no error, also
-- after SET ROLE: an error would abort the caller's transaction. Then headrace.publish is the way. Publishers hold the right to insert here
-- for this reason alone. A payload that the library has checked by the topic's very schemas, as their digest says, is not checked again.
-- The condition without columns of a topic is evaluated first, as a one-time filter: for other roles no topic is read. A topic that is
-- asleep wakes the sequencers. Locks nothing. Index: topic_name_unique.
create or replace view headrace.direct_event as
select null::text as namespace, null::text as topic, null::uuid as event_id, null::text as type, null::text as key, null::jsonb as payload,
    null::jsonb as headers, null::timestamptz as emitted_at, null::text as producer,
    null::bigint as schemas_digest
where false;

create or replace rule direct_event_insert as on insert to headrace.direct_event do instead
insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
select t.topic_id, new.event_id, new.type, new.key, new.payload, coalesce(new.headers, '{}'), coalesce(new.emitted_at, headrace.clock()),
    new.producer
from headrace_internal.topic t
where t.namespace = headrace.current_namespace(new.namespace) and t.topic = new.topic
    and has_table_privilege('headrace_internal.outbox'::regclass, 'insert')
    and (not t.checks_payloads or t.schemas_digest = new.schemas_digest or headrace_internal.payload_fits(t.namespace, new.type, new.payload))
    and not t.has_inline_rules
    and (not t.asleep or headrace_internal.wake_sequencer(t.topic_id));

-- Tables whose changes are published.
create or replace view headrace.capture with (security_barrier) as
select c.captured, c.topic_id, c.key_columns, c.type_column, c.insert_type, c.update_type, c.delete_type, c.columns,
    c.created_at
from headrace_internal.capture c
where c.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'publish');

-- The log: every event of a topic, by position.
create or replace view headrace.log with (security_barrier) as
select l.position, l.appended_at, l.emitted_at, l.topic_id, l.partition, l.event_id, l.type, l.key, l.payload,
    l.headers, l.producer
from headrace_internal.log l
where l.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

-- Erasures of keys, with the number of topics whose archive files still have to be written again, and the tables that VACUUM still has to clean.
create or replace view headrace.erasure with (security_barrier) as
select e.erasure_id, e.namespace, e.topic, e.fields, e.new_key, e.erased_by, e.erased_at, e.row_counts,
    (select count(*) from headrace_internal.erasure_pending p where p.erasure_id = e.erasure_id) as archives_pending, e.tables as tables_pending
from headrace_internal.erasure e
where e.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');
