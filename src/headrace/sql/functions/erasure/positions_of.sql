-- The positions of events in a topic's log. Index: log_event_id. It names the topic's own branch of the log.
create or replace function headrace_internal.positions_of(p_topic_id integer, p_event_ids uuid[]) returns bigint[]
language plpgsql stable
set enable_seqscan = off
set jit = off
as $$
declare
    v_positions bigint[];
begin
    execute format('select array_agg(l.position) from headrace_internal.%I l where l.event_id = any ($1)', 'log_' || p_topic_id)
    into v_positions using p_event_ids;
    return coalesce(v_positions, '{}');
end
$$;
