-- How actions ended.
select r.action_id, r.action, r.outcome, r.attempts from headrace.action_result r;
