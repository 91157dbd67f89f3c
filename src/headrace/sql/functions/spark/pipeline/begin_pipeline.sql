-- Records that a process starts to run a topic on Spark.
create or replace function headrace_internal.begin_pipeline(p_topic_id integer, p_run_id uuid, p_process text, p_master text) returns void
language sql volatile
as $$
    insert into headrace_internal.pipeline (topic_id, run_id, process, master) values (p_topic_id, p_run_id, p_process, p_master)
    on conflict on constraint pipeline_pkey do update
    set run_id = excluded.run_id, process = excluded.process, master = excluded.master, started_at = headrace.clock(),
        heartbeat_at = headrace.clock(), stopped_at = null, error = null
$$;
