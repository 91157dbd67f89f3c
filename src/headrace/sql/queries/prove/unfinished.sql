-- The work that is still open, by kind.
select 'events in the outbox' as what, count(*) as count from headrace_internal.outbox
union all
select 'events behind ' || l.consumer, sum(l.lag_events) from headrace.consumer_lag l group by l.consumer
union all
select 'actions in the queue', q.due + q.in_flight + q.delayed + q.retrying + q.held from headrace.queue_state() q
union all
select 'timers running', count(*) from headrace_internal.correlator_instance i where i.deadline is not null
union all
select 'consumers stopped', count(*) from headrace_internal.cursor u where u.state = 'stopped'
union all
select 'dead letters to redrive', count(*) from headrace.action_dead_letters(p_action => 'mend');
