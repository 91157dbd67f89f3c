-- A pipeline's heartbeat, with the error of the last attempt if there was one; p_stopped marks the last heartbeat. A run that
-- another run has replaced changes nothing.
create or replace function headrace_internal.beat_pipeline(p_topic_id integer, p_run_id uuid, p_error text, p_stopped boolean) returns void
language sql volatile
as $$
    update headrace_internal.pipeline p
    set heartbeat_at = headrace.clock(), error = left(p_error, 10000), stopped_at = case when p_stopped then headrace.clock() end
    where p.topic_id = p_topic_id and p.run_id = p_run_id
$$;
