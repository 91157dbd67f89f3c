-- Whether a process has done a batch of its pipeline. Index: pipeline_batch_pkey.
select 1
from headrace.pipeline p join headrace.pipeline_batch b on b.topic_id = p.topic_id and b.run_id = p.run_id
where p.process like '%%:' || %(pid)s limit 1;
