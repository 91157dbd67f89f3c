-- Erasures whose archive files were not written again yet.
select 'erasures', 'warning', format('erasure %%s of topic %%s in namespace %%s is not finished in the archive', e.erasure_id, e.topic, e.namespace),
    format('run where the folder of the archive is: headrace topic erasures --finish --namespace %%s', e.namespace)
from headrace.erasure e
where e.archives_pending > 0
order by e.erasure_id;
