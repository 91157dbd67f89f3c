-- Fixes the time of a topic: no event that gets its position later has an earlier time. Every event of an earlier time is then
-- visible in the log, and a timer due by then may fire once these events are passed. Null when a sequencer holds the topic.
-- A topic on the events' clock goes no further than its newest event.
-- Call it in a transaction of its own. Locks: the topic row, no key update, skip locked.
create or replace function headrace_internal.settle_time(p_topic_id integer) returns timestamptz
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    update headrace_internal.topic t set timers_to = greatest(t.timers_to, headrace.log_clock(t.topic_id))
    where t.topic_id in (select s.topic_id from headrace_internal.topic s where s.topic_id = p_topic_id for no key update skip locked)
    returning t.timers_to
$$;
