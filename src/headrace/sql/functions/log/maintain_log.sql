-- Applies the retention of every topic, creates time partitions ahead, and drops the branches of dropped topics. A node calls it now
-- and then, or cron does. A topic that a sequencer or another node holds, or whose log is being read, is left for the next call. A
-- topic that fails is recorded in headrace_internal.failure and left out until its retry_at; the others go on.
-- Raises HR208 unless READ COMMITTED. Locks: the row of a topic with something to do (no key update, skip locked), and what
-- headrace_internal.extend_log, headrace.drop_expired and headrace_internal.drop_branches lock. It waits at most 200 ms for a lock
-- and begins nothing after 2 s, because it keeps the locks to its end; chance decides which topics come first.
create or replace function headrace.maintain_log()
returns table (topic text, name text, events bigint, dropped boolean, kept_for text)
language plpgsql volatile
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    v_topic  record;
    v_before timestamptz;
begin
    perform headrace_internal.require_read_committed('headrace.maintain_log');
    for v_topic in
        select t.topic_id, t.namespace, t.topic, t.retention, f.kind is not null as has_failed,
            t.clock = 'server' and t.log_until < headrace.clock() + ('1 ' || t.time_partition)::interval as ends_soon
        from headrace_internal.topic t
        left join headrace_internal.failure f on f.kind = 'maintain' and f.namespace = t.namespace and f.name = t.topic
        where f.retry_at is null or f.retry_at <= headrace.clock()
        order by random()
    loop
        exit when clock_timestamp() > statement_timestamp() + interval '2 seconds';
        begin
            v_before := headrace.log_clock(v_topic.topic_id) - v_topic.retention;
            continue when not v_topic.has_failed and not v_topic.ends_soon
                and not exists (select from headrace.time_partitions(v_topic.topic_id) p where p.to_at <= v_before);
            perform from headrace_internal.topic t where t.topic_id = v_topic.topic_id for no key update skip locked;
            continue when not found;
            if v_topic.ends_soon then
                perform headrace_internal.extend_log(v_topic.topic_id, headrace.clock());
            end if;
            return query
            select v_topic.topic, d.name, d.events, d.dropped, d.kept_for
            from headrace.drop_expired(v_topic.topic_id, v_before) d;
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
    end loop;
    delete from headrace_internal.failure f where f.last_at < headrace.clock() - interval '1 day' and f.retry_at < headrace.clock();
    -- Last, because it locks the whole log until the end of the transaction.
    perform headrace_internal.drop_branches();
end
$$;
