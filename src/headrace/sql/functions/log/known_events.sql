-- Which of these event ids a topic's log has already. Index: log_event_id.
-- In a large log it names the topic's own branch, see headrace_internal.log_is_small. Runs as the owner: a node has no right on a branch.
-- One plan for any number of ids: one made for these ids would cost more than the look-ups.
create or replace function headrace_internal.known_events(p_topic_id integer, p_event_ids uuid[]) returns setof uuid
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if headrace_internal.log_is_small() then
        return query select l.event_id from headrace_internal.log l where l.topic_id = p_topic_id and l.event_id = any (p_event_ids);
    else
        return query execute format('select l.event_id from headrace_internal.%I l where l.event_id = any ($1)', 'log_' || p_topic_id)
        using p_event_ids;
    end if;
end
$$;
