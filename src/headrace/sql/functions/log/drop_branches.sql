-- Drops the branches of topics that were dropped, at most 20 at once, and returns how many. It acts only on what drop_topic has
-- recorded, never on what looks unused. A failure, for example while a long transaction reads the log, is recorded and tried again
-- at its retry_at: each attempt may hold up every reader for 200 ms.
-- Runs as the owner: a node's role may not drop a table.
-- Locks: the whole log and the branch, access exclusive, until the end of the transaction; it waits at most 200 ms.
create or replace function headrace_internal.drop_branches() returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
    v_topic_id integer;
    v_branch   text;
    v_dropped  integer := 0;
begin
    for v_topic_id in
        select d.topic_id from headrace_internal.dropped_topic d
        where not exists (select from headrace_internal.failure f
            where f.kind = 'drop branch' and f.name = 'log_' || d.topic_id and f.retry_at > headrace.clock())
        limit 20
        for update skip locked
    loop
        v_branch := 'log_' || v_topic_id;
        begin
            execute format('drop table if exists headrace_internal.%I', v_branch);
            delete from headrace_internal.dropped_topic d where d.topic_id = v_topic_id;
            perform headrace_internal.clear_failure('drop branch', null, v_branch);
            v_dropped := v_dropped + 1;
        exception when others then
            perform headrace_internal.record_failure('drop branch', null, v_branch, format('%s (SQLSTATE %s)', sqlerrm, sqlstate),
                p_backoff_s => 10);
            -- The others would wait for the same lock.
            exit;
        end;
    end loop;
    return v_dropped;
end
$$;
