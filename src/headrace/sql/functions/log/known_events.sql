-- Which of these event ids a topic's log has already. Index: log_event_id.
-- It names the topic's own branch, whatever the size of the log: a plan over the whole log would wait for a lock on another topic, and
-- a plan for these ids by the whole log costs more. Runs as the owner: a node has no right on a branch.
create or replace function headrace_internal.known_events(p_topic_id integer, p_event_ids uuid[]) returns setof uuid
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query execute format('select l.event_id from headrace_internal.%I l where l.event_id = any ($1)', 'log_' || p_topic_id)
    using p_event_ids;
end
$$;
