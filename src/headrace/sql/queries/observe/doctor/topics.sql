-- Topics whose time partitions end soon: the log needs a partition for every appended_at to come.
select t.namespace, t.topic, t.log_until
from headrace.topic t
where t.log_until < headrace.clock() + interval '1 day'
order by t.namespace, t.topic;
