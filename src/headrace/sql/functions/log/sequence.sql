-- Moves committed outbox rows into the log: for up to 100 topics with rows that no other sequencer holds, the oldest p_batch rows (and
-- a few that became visible meanwhile), in id order, with the positions after the head. One transaction; consumers are notified
-- once, at its commit. With more than 100 topics chance decides which come first, so that none starves.
-- A topic that fails does not stop the others: it is rolled back alone, recorded in headrace_internal.failure, and left out until
-- its retry_at (1 s, growing to 30 s; after a lock timeout 0.1 to 5 s). All topics share one subtransaction, for its price; only after a failure each gets its own.
-- Raises HR208 unless READ COMMITTED: by an older snapshot positions would be used twice.
-- Locks: the topic rows (no key update, skip locked) until the end of the transaction; it waits at most 200 ms for any other lock,
-- and starts no further topic after 5 s. Index: failure_pkey; see headrace_internal.sequence_topic.
create or replace function headrace.sequence(p_batch integer default 10000)
returns table (topic_id integer, first_position bigint, last_position bigint, events integer, duplicates integer)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    v_waiting  integer[];
    v_together integer[];
    v_failed   integer[];
    v_alone    integer[];
    v_topic    record;
    v_done     jsonb := '[]';
    v_new      jsonb;
    v_notify   text;
begin
    perform headrace_internal.require_read_committed('headrace.sequence');
    v_waiting := array(select w.topic_id from headrace_internal.outbox_topics() w (topic_id));
    if v_waiting = '{}' then
        return;
    end if;
    if cardinality(v_waiting) > 100 then
        v_waiting := array(select w.topic_id from unnest(v_waiting) w (topic_id) order by random() limit 100);
    end if;
    v_together := array(
        select t.topic_id from headrace_internal.topic t where t.topic_id = any (v_waiting) order by t.topic_id
        for no key update skip locked);
    if exists (select from headrace_internal.failure f where f.kind = 'sequence') then
        select array_agg(t.topic_id), array_agg(t.topic_id) filter (where f.retry_at <= headrace.clock()) into v_failed, v_alone
        from headrace_internal.failure f
        join headrace_internal.topic t on t.namespace = f.namespace and t.topic = f.name
        where f.kind = 'sequence' and t.topic_id = any (v_together);
        v_together := array(
            select w.topic_id from unnest(v_together) w (topic_id) where w.topic_id <> all (coalesce(v_failed, '{}')));
    end if;
    if v_together <> '{}' then
        begin
            v_done := headrace_internal.sequence_topics(v_together, p_batch);
        exception when others then
            v_alone := v_alone || v_together;
        end;
    end if;
    if v_alone is not null then
        for v_topic in
            select t.topic_id, t.namespace, t.topic from headrace_internal.topic t where t.topic_id = any (v_alone) order by t.topic_id
        loop
            exit when clock_timestamp() > statement_timestamp() + interval '5 seconds';
            begin
                v_new := headrace_internal.sequence_topics(array[v_topic.topic_id], p_batch);
                perform headrace_internal.clear_failure('sequence', v_topic.namespace, v_topic.topic);
                v_done := v_done || v_new;
            exception when others then
                perform headrace_internal.record_failure('sequence', v_topic.namespace, v_topic.topic,
                    format('%s (SQLSTATE %s)', sqlerrm, sqlstate),
                    p_backoff_s => case when sqlstate = '55P03' then 0.1 else 1 end,
                    p_backoff_max_s => case when sqlstate = '55P03' then 5 else 30 end);
            end;
        end loop;
    end if;
    for topic_id, first_position, events, duplicates in
        select d.topic_id, d.first_position, d.events, d.duplicates
        from jsonb_to_recordset(v_done) d (topic_id integer, first_position bigint, events integer, duplicates integer)
    loop
        last_position := first_position + events - 1;
        return next;
        if events > 0 then
            v_notify := concat_ws(',', v_notify, topic_id);
        end if;
    end loop;
    if v_notify is not null then
        -- A NOTIFY carries at most 8000 bytes; an empty one means every topic.
        perform pg_notify('headrace_log', case when length(v_notify) < 7000 then v_notify else '' end);
    end if;
end
$$;
