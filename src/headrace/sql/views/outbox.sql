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
