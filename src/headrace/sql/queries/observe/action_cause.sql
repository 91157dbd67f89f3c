-- What sent an action that has left the queue, by the event: the firing of a rule or the output of a correlator. In the form of the
-- action's cause. Indexes: firing_once, log_event_id, correlation_position.
select 'rule' as kind, v.rule, null as correlator, v.version, t.topic, f.position, f.event_id::text as event_id, f.firing_id
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
join headrace.topic t on t.topic_id = f.topic_id
where f.event_id = %(event_id)s and f.action_id = %(action_id)s and t.namespace = headrace.current_namespace(%(namespace)s)
union all
select 'correlator', null, v.correlator, v.version, t.topic, c.position, c.event_id::text, null
from headrace.log l
join headrace.correlation c on c.topic_id = l.topic_id and c.position = l.position
join headrace.correlator_version v on v.version_id = c.version_id
join headrace.topic t on t.topic_id = c.topic_id
where l.event_id = %(event_id)s and c.output_id = %(action_id)s and t.namespace = headrace.current_namespace(%(namespace)s)
limit 1;
