-- The position of the pipeline that a process runs; no row before its first batch.
select s.position from headrace.pipeline_state s where s.process like '%%:' || %(pid)s;
