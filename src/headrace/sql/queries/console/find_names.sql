-- Names of a namespace that contain a text, at most 20 of each kind: for the console's palette.
-- Reads the public views only, so a role finds what it may see.
(select 'topic' as kind, t.topic as name from headrace.topic t
where t.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(t.topic), lower(%(text)s)) > 0 order by t.topic limit 20)
union all
(select 'consumer', t.topic || '/' || c.consumer from headrace.consumer c join headrace.topic t on t.topic_id = c.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(t.topic || '/' || c.consumer), lower(%(text)s)) > 0
order by 2 limit 20)
union all
(select 'rule', r.rule from headrace.rule_state r
where r.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(r.rule), lower(%(text)s)) > 0 order by r.rule limit 20)
union all
(select 'correlator', r.correlator from headrace.correlator_state r
where r.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(r.correlator), lower(%(text)s)) > 0
order by r.correlator limit 20)
union all
(select 'schedule', s.schedule from headrace.schedule s
where s.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(s.schedule), lower(%(text)s)) > 0
order by s.schedule limit 20)
union all
(select 'action', a.action from headrace.action a
where a.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(a.action), lower(%(text)s)) > 0 order by a.action limit 20);
