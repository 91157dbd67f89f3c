-- What handlers of actions wrote, in the order of writing.
select e.seq, e.action_id, e.action, e.attempt from headrace_prove.effect e order by e.seq;
