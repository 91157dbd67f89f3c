-- How actions ended, without those whose data is erased.
select r.action_id, r.action, r.outcome, r.attempts from headrace_internal.action_result r
where r.action <> 'greet';
