-- What fails in the loops of the nodes. The others go on. Index: failure_pkey.
select 'failures' as check, case when f.failures >= 3 then 'problem' else 'warning' end as level,
    format('%%s %%s%%s failed %%s times since %%s: %%s', f.kind, case when f.namespace = '' then '' else f.namespace || '/' end, f.name,
        f.failures, to_char(f.first_at, 'YYYY-MM-DD HH24:MI:SS'), split_part(f.error, E'\n', 1)) as message,
    format('correct the cause; it is tried again at %%s', to_char(f.retry_at, 'HH24:MI:SS')) as advice
from headrace_internal.failure f
order by f.namespace, f.kind, f.name;
