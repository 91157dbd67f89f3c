-- Applies the retention of every topic and creates time partitions ahead. A node calls it now and then, or cron does.
-- A topic that a sequencer or another node holds, or whose log is being read, is left for the next call; the others go on.
-- Locks: the row of a topic with something to do (no key update, skip locked), and what headrace_internal.extend_log and
-- headrace.drop_expired lock; it waits at most 200 ms per topic.
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
    for v_topic in
        select t.topic_id, t.topic, t.retention,
            t.clock = 'server' and t.log_until < headrace.clock() + ('1 ' || t.time_partition)::interval as ends_soon
        from headrace_internal.topic t order by t.topic_id
    loop
        begin
            v_before := headrace.log_clock(v_topic.topic_id) - v_topic.retention;
            continue when not v_topic.ends_soon
                and not exists (select from headrace.time_partitions(v_topic.topic_id) p where p.to_at <= v_before);
            perform from headrace_internal.topic t where t.topic_id = v_topic.topic_id for no key update skip locked;
            continue when not found;
            if v_topic.ends_soon then
                perform headrace_internal.extend_log(v_topic.topic_id, headrace.clock());
            end if;
            return query
            select v_topic.topic, d.name, d.events, d.dropped, d.kept_for
            from headrace.drop_expired(v_topic.topic_id, v_before) d;
        exception when lock_not_available then
            raise notice 'the log of topic "%" is in use; its maintenance waits for the next time', v_topic.topic;
        end;
    end loop;
end
$$;
