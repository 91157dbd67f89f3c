-- Topics whose time partitions end soon: the log needs a partition for every appended_at to come.
select 'time partitions' as check, 'warning' as level,
    format('the last one of %%s/%%s ends at %%s', t.namespace, t.topic, to_char(t.log_until, 'YYYY-MM-DD HH24:MI')) as message,
    'run a node, or run: headrace topic maintain' as advice
from headrace_internal.topic t
where t.log_until < headrace.clock() + interval '1 day'
order by t.namespace, t.topic;
