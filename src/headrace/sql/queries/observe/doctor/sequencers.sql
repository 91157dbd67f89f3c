-- Sessions that have acted as a sequencer in the last seconds. A sequencer looks at least every second.
-- Other roles' queries are visible only with pg_read_all_stats; "hidden" counts those that are not.
select count(*) filter (where a.query ~ 'headrace\.(sequence|sequencer_rest|trim_outbox)\('
        and (a.state <> 'idle' or a.state_change > clock_timestamp() - interval '10 seconds')) as sequencers,
    count(*) filter (where a.query = '<insufficient privilege>') as hidden
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid();
