-- How actions of the workload ended, without those whose data is erased. A hostile tenant may use the same ids in its namespace.
select r.action_id, r.action, r.outcome, r.attempts from headrace_internal.action_result r
where r.namespace = 'default' and r.action <> 'greet';
