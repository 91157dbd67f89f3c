-- The work that is still open, by kind. What a hostile tenant leaves in its namespace is nobody's work.
select 'events in the outbox' as what, count(*) as count from headrace_internal.outbox o
join headrace_internal.topic t on t.topic_id = o.topic_id and t.namespace = 'default'
union all
select 'events behind ' || l.consumer, sum(l.lag_events) from headrace.consumer_lag l where l.namespace = 'default' group by l.consumer
union all
select 'actions in the queue', q.due + q.in_flight + q.delayed + q.retrying + q.held from headrace.queue_state() q
union all
select 'timers running', count(*) from headrace_internal.correlator_instance i
join headrace_internal.correlator c on c.correlator_id = i.correlator_id and c.namespace = 'default'
where i.deadline is not null
union all
select 'consumers stopped', count(*) from headrace_internal.cursor u
join headrace_internal.consumer c on c.consumer_id = u.consumer_id
join headrace_internal.topic t on t.topic_id = c.topic_id and t.namespace = 'default'
where u.state = 'stopped'
union all
select 'dead letters to redrive', count(*) from headrace.action_dead_letters(p_action => 'mend');
