-- How far a process has come with its pipeline; no row until it has begun.
select s.position from headrace.pipeline_state s where s.process like '%%:' || %(pid)s;
