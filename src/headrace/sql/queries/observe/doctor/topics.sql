-- Topics whose time partitions end soon: the log is written by appended_at, so it needs one for now and for a while after.
select t.namespace, t.topic, t.log_until
from headrace.topic t
where t.log_until < headrace.clock() + interval '1 day'
order by t.namespace, t.topic;
