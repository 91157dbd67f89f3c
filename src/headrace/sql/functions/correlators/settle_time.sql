-- Fixes the time of a topic: no event that gets its position after this has an earlier time. Then every event of an earlier time is
-- in the log for all to see, and a timer that is due by then may fire once those are passed. Null when a sequencer has the topic.
-- A topic whose time is that of its events goes no further than its newest one.
-- Call it in a transaction of its own. Locks: the topic row, no key update, skip locked.
create or replace function headrace_internal.settle_time(p_topic_id integer) returns timestamptz
language sql volatile
as $$
    update headrace.topic t set timers_to = greatest(t.timers_to, headrace_internal.log_clock(t.topic_id))
    where t.topic_id in (select s.topic_id from headrace.topic s where s.topic_id = p_topic_id for no key update skip locked)
    returning t.timers_to
$$;
