-- Moves committed outbox rows into the log: for up to 100 topics with rows that no other sequencer holds, the oldest p_batch rows (and
-- a few that became visible meanwhile), in id order, with the positions after the head. One transaction; consumers are notified
-- once, at its commit. Of many topics, namespaces take turns: see headrace_internal.sequence_turns. Each namespace gets its first topic
-- in each call (the first of 100 namespaces, by chance); no further topic begins after 0.2 s, so that a call stays short.
-- A topic that fails does not stop the others: it is rolled back alone, recorded in headrace_internal.failure, and left out until
-- its retry_at (1 s, growing to 30 s; after a lock timeout 0.1 to 5 s). All topics share one subtransaction, for its price; only after
-- a failure each gets its own.
-- A partition of the log costs a lock on it and on each of its indexes, so one call appends to at most 32 time partitions of topics on
-- the event clock (but at least one per topic); the events after that wait for the next call.
-- Raises HR208 unless READ COMMITTED: by an older snapshot positions would be used twice.
-- Its plans are generic: a step is often shorter than planning it. Reads of the log are planned for their topic: see
-- headrace_internal.read_head and headrace_internal.known_events.
-- Locks: the topic rows (no key update, skip locked) until the end of the transaction; it waits at most 200 ms for any other lock,
-- and starts no further topic after 5 s. Index: failure_pkey; see headrace_internal.sequence_topic.
create or replace function headrace.sequence(p_batch integer default 10000)
returns table (topic_id integer, first_position bigint, last_position bigint, events integer, duplicates integer)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    v_waiting    integer[];
    v_first      integer;
    v_topic      record;
    v_moved      record;
    v_partitions integer := 32;
    v_alone      integer[];
    v_moves      headrace_internal.topic_move[];
    v_notify     text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform headrace_internal.require_read_committed('headrace.sequence');
    end if;
    v_waiting := array(select w.topic_id from headrace_internal.outbox_topics() w (topic_id));
    if v_waiting = '{}' then
        return;
    end if;
    if cardinality(v_waiting) > 10 then
        select w.topic_ids, w.namespaces into v_waiting, v_first from headrace_internal.sequence_turns(v_waiting) w;
    end if;
    begin
        for v_topic in
            select t as topic_row, t.topic_id, f.retry_at
            from headrace_internal.topic t
            left join headrace_internal.failure f on f.kind = 'sequence' and f.namespace = t.namespace and f.name = t.topic
            where t.topic_id = any (v_waiting) order by array_position(v_waiting, t.topic_id)
            for no key update of t skip locked
        loop
            exit when array_position(v_waiting, v_topic.topic_id) > v_first
                and clock_timestamp() > statement_timestamp() + interval '0.2 seconds';
            if v_topic.retry_at is null then
                v_moved := headrace_internal.sequence_topic(v_topic.topic_row, p_batch, greatest(v_partitions, 1));
                v_partitions := v_partitions - v_moved.time_partitions;
                v_moves := v_moves || (v_topic.topic_id, v_moved.first_position, v_moved.events, v_moved.duplicates)::headrace_internal.topic_move;
            elsif v_topic.retry_at <= headrace.clock() then
                v_alone := v_alone || v_topic.topic_id;
            end if;
        end loop;
    exception when others then
        -- Rolled back with its locks. Each topic is tried again by itself, to find out which of them failed.
        v_moves := null;
        v_alone := v_waiting;
    end;
    if v_alone is not null then
        -- One of them where others have moved: these are visible only after the commit.
        v_moves := v_moves || headrace_internal.sequence_alone(case when v_moves is null then v_alone else v_alone[:1] end, p_batch);
    end if;
    if v_moves is null then
        return;
    end if;
    return query
    select m.topic_id, m.first_position, m.first_position + m.events - 1, m.events, m.duplicates from unnest(v_moves) m;
    v_notify := (select string_agg(m.topic_id::text, ',') from unnest(v_moves) m where m.events > 0);
    if v_notify is not null then
        -- A NOTIFY carries at most 8000 bytes; an empty one means every topic.
        perform headrace_internal.notify('headrace_log', case when length(v_notify) < 7000 then v_notify else '' end);
    end if;
end
$$;
