-- What fails in the loops of the nodes, and events whose inline rules failed and wait to be evaluated after the log. The others go
-- on. Indexes: failure_pkey, inline_failure_topic.
select 'failures' as check, case when f.failures >= 3 then 'problem' else 'warning' end as level,
    format('%%s %%s%%s failed %%s times since %%s: %%s', f.kind, case when f.namespace = '' then '' else f.namespace || '/' end, f.name,
        f.failures, to_char(f.first_at, 'YYYY-MM-DD HH24:MI:SS'), split_part(f.error, E'\n', 1)) as message,
    format('correct the cause; it is tried again at %%s', to_char(f.retry_at, 'HH24:MI:SS')) as advice
from headrace_internal.failure f
union all
(select 'failures', 'warning',
    format('inline rules of %%s/%%s failed on %%s events since %%s: %%s', t.namespace, t.topic, count(*),
        to_char(min(f.failed_at), 'YYYY-MM-DD HH24:MI:SS'), split_part(max(f.error), E'\n', 1)),
    'correct the rules; a node with a sequencer evaluates them on these events after the log'
from headrace_internal.inline_failure f
join headrace_internal.topic t on t.topic_id = f.topic_id
group by t.namespace, t.topic)
order by 3;
