-- Drops the queues, then both schemas with all that is in them, and the triggers that call their functions.
-- Locks: every table of headrace, access exclusive.
do $$
begin
    perform pgmq.drop_queue(q.name)
    from headrace_internal.namespace n
    cross join unnest(array[headrace.queue_name(n.namespace), headrace_internal.dead_letter_queue(headrace_internal.queue_of(n.namespace))]) q (name);
    drop schema headrace, headrace_internal cascade;
end
$$;
