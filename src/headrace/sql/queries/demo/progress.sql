-- Progress of the demo: events in the log, handled, late, notices; positions of rules and correlators; actions sent and ended;
-- pending work: timers that are due, events of correlators in the outbox.
-- Index: log_position backwards.
select coalesce((select h.position from headrace.log_head(headrace.topic_id('flights')) h), 0)::bigint as in_log,
    (select coalesce(sum(b.events), 0) from handled_batch b)::bigint as handled,
    coalesce((select h.position from headrace.log_head(headrace.topic_id('delays')) h), 0)::bigint as late,
    (select count(*) from notice) as notices,
    coalesce((select u.position from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace.topic_id('flights') and c.consumer = 'headrace.rules'), 0)::bigint as matched_to,
    coalesce((select min(u.position) from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where c.topic_id = headrace.topic_id('flights') and c.consumer like 'headrace.correlator.%%'), 0)::bigint as correlated_to,
    (select count(*) from headrace_internal.firing) + (select count(*) from headrace_internal.correlation c where c.becomes = 'action') as actions_sent,
    (select count(*) from headrace_internal.action_result) as actions_ended,
    (select count(*) from headrace_internal.correlator_instance i where i.deadline <= headrace.log_clock(headrace.topic_id('flights')))
        + (select count(*) from headrace_internal.outbox) as pending;
