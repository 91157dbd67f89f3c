-- Publishes by a plain INSERT for roles that may insert into the outbox anyway: the rule turns it into one INSERT … SELECT with the
-- look-up of the topic. It shows no rows. The library publishes by such a statement where that is possible: a function around it costs
-- more. Limits are not checked here; whoever may insert into the outbox could write past them anyway.
-- For any other role, for an unknown topic, for a topic with inline rules and for a payload that breaks the schema of its type, the statement inserts nothing and
-- raises no error, also after SET ROLE: an error would abort the caller's transaction. Then headrace.publish is the way. Publishers
-- hold the right to insert here for this reason alone.
-- A payload that the library has checked by the topic's very schemas, as their digest says, is not checked again.
-- The condition without columns of a topic is evaluated first, as a one-time filter: for other roles no topic is read.
-- A topic that is asleep wakes the sequencers. Locks nothing. Index: topic_name_unique.
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
