-- Correlators with versions to compile, and those that kept their consumer because a transaction was open when they were deactivated.
-- Index: correlator_version_pending.
select v.correlator_id from headrace_internal.correlator_version v where v.status = 'pending'
union
select k.correlator_id from headrace_internal.correlator k
join headrace_internal.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
where not k.active
order by correlator_id;
