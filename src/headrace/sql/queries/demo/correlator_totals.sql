-- How often correlators pushed each token, and how many of its actions or events are done.
select h.correlator, h.token, min(h.name) as becomes, count(*) as outputs,
    count(*) filter (where e.outcome = 'done' or l.event_id is not null) as done
from headrace.correlation_history h
left join headrace_internal.action_result e on h.becomes = 'action' and e.action_id = h.output_id
left join headrace_internal.log l on h.becomes = 'event' and l.event_id = h.output_id and l.topic_id = (select headrace.topic_id('operations'))
group by h.correlator, h.token
order by h.correlator, h.token;
