-- Topics for a statement that writes to headrace.direct_outbox; for a role that may not insert into the outbox there are none. The
-- library publishes by one such statement where that is possible, since a function around it costs a third more.
-- Reading a topic that is asleep wakes the sequencers: read by namespace and topic, and only to publish. Index: topic_name_unique.
-- Not a security barrier, which would keep the namespace out of the index condition. The first condition does not depend on a row, so
-- PostgreSQL evaluates it before it reads one, whatever conditions the reader adds.
create or replace view headrace.direct_topic as
select t.topic_id, t.namespace, t.topic
from headrace_internal.topic t
where has_table_privilege('headrace_internal.outbox'::regclass, 'insert')
    and (not t.asleep or headrace_internal.wake_sequencer());
