-- Cursors: how far a consumer has come, per partition.
create or replace view headrace.cursor with (security_barrier) as
select u.consumer_id, u.partition, u.position, u.state, u.attempts, u.retry_at, u.error, u.traceback, u.single_to, u.moved_at
from headrace_internal.cursor u
where u.consumer_id in (
    select c.consumer_id from headrace_internal.consumer c
    join headrace_internal.caller_topic k on k.topic_id = c.topic_id and k.level = 'consume');
