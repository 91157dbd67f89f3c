-- Sessions that acted as a sequencer within the last seconds; a sequencer runs a query at least every second.
-- Queries of other roles are visible only with pg_read_all_stats; "hidden" counts the invisible ones.
select count(*) filter (where (strpos(a.query, 'headrace.sequence(') > 0 or strpos(a.query, 'headrace_internal.sequencer_rest(') > 0
            or strpos(a.query, 'headrace_internal.trim_outbox(') > 0)
        and (a.state <> 'idle' or a.state_change > clock_timestamp() - interval '10 seconds')) as sequencers,
    count(*) filter (where a.query = '<insufficient privilege>') as hidden
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid();
