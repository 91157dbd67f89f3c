-- How far the demo is: in the log, handled, called out as late, told; looked at by rules and by correlators, actions sent and ended;
-- what is still on its way: timers that are due, events of correlators in the outbox.
-- Index: log_position backwards.
select coalesce((select h.position from headrace.log_head(headrace.topic_id('flights')) h), 0)::bigint as in_log,
    (select coalesce(sum(b.events), 0) from handled_batch b)::bigint as handled,
    coalesce((select h.position from headrace.log_head(headrace.topic_id('delays')) h), 0)::bigint as late,
    (select count(*) from notice) as told,
    coalesce((select u.position from headrace.consumer c join headrace.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace.topic_id('flights') and c.consumer = 'headrace.rules'), 0)::bigint as ruled,
    coalesce((select min(u.position) from headrace.consumer c join headrace.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace.topic_id('flights') and c.consumer like 'headrace.correlator.%%'), 0)::bigint as correlated,
    (select count(*) from headrace.firing) + (select count(*) from headrace.correlation c where c.becomes = 'action') as fired,
    (select count(*) from headrace.action_result) as ended,
    (select count(*) from headrace.correlator_instance i where i.deadline <= headrace.log_clock(headrace.topic_id('flights')))
        + (select count(*) from headrace.outbox) as on_the_way;
