-- Consumers with their failure policy and condition.
create or replace view headrace.consumer with (security_barrier) as
select c.consumer_id, c.topic_id, c.consumer, c.ordered_by, c.attempts_max, c.backoff_s, c.backoff_max_s,
    c.when_exhausted, c.key_order, c.created_at, c.condition,
    case when c.condition is null then null when c.filter is not null then 'valid' when c.condition_error is not null then 'invalid'
        else 'pending' end as condition_status, c.condition_error
from headrace_internal.consumer c
where c.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
