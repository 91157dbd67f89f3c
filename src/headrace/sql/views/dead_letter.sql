-- Events that a consumer could not handle, and the events of their keys that wait behind them.
create or replace view headrace.dead_letter with (security_barrier) as
select d.dead_letter_id, d.consumer_id, d.partition, d.position, d.event_id, d.type, d.key, d.payload, d.headers,
    d.state, d.reason, d.error, d.traceback, d.attempts, d.buried_at, d.ended_at, headrace_internal.error_group(d.error) as error_group,
    d.edited_payload
from headrace_internal.dead_letter d
where d.consumer_id in (
    select c.consumer_id from headrace_internal.consumer c
    join headrace_internal.caller_topic k on k.topic_id = c.topic_id and k.level = 'consume');
