-- How far the demo is: in the log, handled, called out as late, told; looked at by rules and by correlators, actions sent and ended;
-- what is still on its way: timers that are due, events of correlators in the outbox.
-- Index: log_position backwards.
select coalesce((select h.position from headrace_internal.log_head(headrace_internal.topic_id('flights')) h), 0)::bigint as in_log,
    (select coalesce(sum(b.events), 0) from handled_batch b)::bigint as handled,
    coalesce((select h.position from headrace_internal.log_head(headrace_internal.topic_id('delays')) h), 0)::bigint as late,
    (select count(*) from notice) as told,
    coalesce((select u.position from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace_internal.topic_id('flights') and c.consumer = 'headrace.rules'), 0)::bigint as ruled,
    coalesce((select min(u.position) from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace_internal.topic_id('flights') and c.consumer like 'headrace.correlator.%%'), 0)::bigint as correlated,
    (select count(*) from headrace_internal.firing) + (select count(*) from headrace_internal.correlation c where c.becomes = 'action') as fired,
    (select count(*) from headrace_internal.action_result) as ended,
    (select count(*) from headrace_internal.correlator_instance i where i.deadline <= headrace_internal.log_clock(headrace_internal.topic_id('flights')))
        + (select count(*) from headrace_internal.outbox) as on_the_way;
