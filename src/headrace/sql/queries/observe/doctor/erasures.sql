-- Erasures that are not finished: archive files to be written again, tables whose old row versions VACUUM has not removed yet.
select 'erasures', 'warning', format('erasure %%s of topic %%s in namespace %%s is not finished in the archive', e.erasure_id, e.topic, e.namespace),
    format('run where the folder of the archive is: headrace topic erasures --finish --namespace %%s', e.namespace)
from headrace.erasure e
where e.archives_pending > 0
union all
select 'erasures', 'warning', format('%%s tables still hold old versions of rows of erasure %%s in namespace %%s', cardinality(e.tables_pending),
        e.erasure_id, e.namespace),
    format('run VACUUM as the owner of the tables: headrace topic erasures --finish --namespace %%s', e.namespace)
from headrace.erasure e
where e.tables_pending <> '{}'
order by 3;
