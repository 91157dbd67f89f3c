-- Applies the retention of every topic, creates time partitions ahead, and drops the branches of dropped topics. A node calls it now
-- and then, or cron does. A topic that a sequencer or another node holds, or whose log is being read, is left for the next call. A
-- topic that fails is recorded in headrace_internal.failure and left out until its retry_at; the others go on.
-- Raises HR208 unless READ COMMITTED. Locks: the row of a topic with something to do (no key update, skip locked), and what
-- headrace_internal.extend_log, headrace.drop_expired and headrace_internal.drop_branches lock. It waits at most 200 ms for a lock
-- and begins nothing after 2 s, because it keeps the locks to its end; chance decides which topics come first.
create or replace function headrace.maintain_log()
returns table (topic text, name text, events bigint, dropped boolean, kept_for text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    v_topic record;
    v_rows  jsonb;
begin
    perform headrace_internal.require_read_committed('headrace.maintain_log');
    for v_topic in
        select t.topic_id, t.namespace, t.topic, f.kind is not null as has_failed
        from headrace_internal.topic t
        left join headrace_internal.failure f on f.kind = 'maintain' and f.namespace = t.namespace and f.name = t.topic
        where f.retry_at is null or f.retry_at <= headrace.clock()
        order by random()
    loop
        exit when clock_timestamp() > statement_timestamp() + interval '2 seconds';
        -- Returned after the block: rows returned inside it would stay when it is rolled back.
        v_rows := null;
        begin
            select jsonb_agg(d) into v_rows from headrace_internal.maintain_topic(v_topic.topic_id) d;
            if v_topic.has_failed then
                perform headrace_internal.clear_failure('maintain', v_topic.namespace, v_topic.topic);
            end if;
        exception
            when lock_not_available then
                raise notice 'the log of topic "%" is in use; its maintenance waits for the next time', v_topic.topic;
            when others then
                perform headrace_internal.record_failure('maintain', v_topic.namespace, v_topic.topic,
                    format('%s (SQLSTATE %s)', sqlerrm, sqlstate), p_backoff_s => 10);
        end;
        return query
        select v_topic.topic, d.name, d.events, d.dropped, d.kept_for
        from jsonb_to_recordset(v_rows) d (name text, events bigint, dropped boolean, kept_for text);
    end loop;
    delete from headrace_internal.failure f where f.last_at < headrace.clock() - interval '1 day' and f.retry_at < headrace.clock();
    -- Last, because it locks the whole log until the end of the transaction.
    perform headrace_internal.drop_branches();
end
$$;
