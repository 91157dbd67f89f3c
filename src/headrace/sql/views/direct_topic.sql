-- Topics for a statement that writes to headrace.direct_outbox; for a role that may not insert into the outbox there are none, and
-- none whose payloads are checked by a schema. The library publishes by one such statement where that is possible, since a function
-- around it costs more.
-- Reading a topic that is asleep wakes the sequencers: read by namespace and topic, and only to publish. Compare the namespace with
-- a constant, a parameter or a subselect: the call of a function does not pass the security barrier into the index condition.
-- Index: topic_name_unique.
create or replace view headrace.direct_topic with (security_barrier) as
select t.topic_id, t.namespace, t.topic
from headrace_internal.topic t
where has_table_privilege('headrace_internal.outbox'::regclass, 'insert')
    and not t.checks_payloads and (not t.asleep or headrace_internal.wake_sequencer());
