-- The newest position of a topic's log and its time; nulls for an empty log.
-- Read from the log itself: a row updated with every batch would bloat while a snapshot is held. In a large log from the time
-- partition that is written now, if it has events, else from the topic's own branch: see headrace_internal.log_is_small.
-- Planned for this topic each time: a plan for any topic would wait for a lock on another one's log.
-- Runs as the owner: a node has no right on a branch. Index: log_position, backwards.
create or replace function headrace_internal.read_head(
    p_topic_id integer, p_clock text, p_width text, out "position" bigint, out appended_at timestamptz
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_query text := 'select l.position, l.appended_at from %s l order by l.position desc limit 1';
    v_now   regclass;
begin
    if headrace_internal.log_is_small() then
        select l.position, l.appended_at into position, appended_at
        from headrace_internal.log l where l.topic_id = p_topic_id order by l.position desc limit 1;
        return;
    end if;
    v_now := headrace_internal.current_log_partition(p_topic_id, p_clock, p_width);
    if v_now is not null then
        execute format(v_query, v_now) into position, appended_at;
    end if;
    if position is null then
        execute format(v_query, format('headrace_internal.%I', 'log_' || p_topic_id)) into position, appended_at;
    end if;
end
$$;
