-- How actions ended.
select r.action_id, r.action, r.outcome, r.attempts from headrace_internal.action_result r;
