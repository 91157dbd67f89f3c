-- Erases events of one topic by id, and what was made of them: dead letters, actions, state and outputs of correlators, their actions
-- and events, and so on. Calls itself for events that correlators published. Positions are those of the ids, as far as known; times are
-- those of events in the archive.
-- Locks: the rows; the caller holds the topics, see headrace_internal.lock_with_outputs. Index: log_event_id, firing_once. It names the topic's own branch of the log.
create or replace function headrace_internal.erase_events(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_positions bigint[], p_event_ids uuid[], p_times timestamptz[], p_key text,
    p_is_output boolean
) returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_rows    bigint;
    v_actions uuid[];
    v_topic   record;
    v_outputs jsonb;
begin
    -- First: correlators compute keys from payloads.
    select jsonb_agg(to_jsonb(o)) into v_outputs
    from headrace_internal.erase_correlations(p_erasure, p_topic_id, p_positions, p_event_ids, p_times, p_key) o;
    execute format($sql$
        update headrace_internal.%I l
        set payload = headrace_internal.erased_payload(l.payload, $2, $3), headers = headrace_internal.erased_headers(l.headers, $2, $4),
            key = headrace_internal.erased_key(l.key, $5, $3)
        where l.event_id = any ($1) and not l.headers ? 'headrace-erased'
        $sql$, 'log_' || p_topic_id)
    using p_event_ids, p_erasure.fields, p_is_output, p_erasure.erasure_id, p_erasure.new_key;
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'log', v_rows);
    update headrace_internal.outbox o
    set payload = headrace_internal.erased_payload(o.payload, p_erasure.fields, p_is_output),
        headers = headrace_internal.erased_headers(o.headers, p_erasure.fields, p_erasure.erasure_id),
        key = headrace_internal.erased_key(o.key, p_erasure.new_key, p_is_output)
    where o.topic_id = p_topic_id and o.event_id = any (p_event_ids);
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'outbox', v_rows);
    perform headrace_internal.erase_consumption(p_erasure, p_topic_id, p_event_ids, p_is_output);
    perform headrace_internal.erase_actions(p_erasure, array(
        select f.action_id from headrace_internal.firing f where f.topic_id = p_topic_id and f.event_id = any (p_event_ids)), p_event_ids, null, p_is_output);
    v_actions := array(
        select (o.output ->> 'output_id')::uuid from jsonb_array_elements(v_outputs) o (output) where o.output ->> 'becomes' = 'action');
    if v_actions <> '{}' then
        perform headrace_internal.erase_actions(p_erasure, v_actions, '{}', null, true);
    end if;
    if exists (select from headrace_internal.archive a where a.topic_id = p_topic_id) then
        perform headrace_internal.hold_archive(p_topic_id);
        insert into headrace_internal.erasure_pending as p (erasure_id, topic_id, event_ids, outputs)
        values (p_erasure.erasure_id, p_topic_id, p_event_ids, p_is_output)
        on conflict on constraint erasure_pending_pkey do update set event_ids = p.event_ids || excluded.event_ids;
    end if;
    for v_topic in
        select t.topic_id, array_agg((o.output ->> 'output_id')::uuid) as event_ids
        from jsonb_array_elements(v_outputs) o (output)
        join headrace_internal.topic t on t.namespace = p_erasure.namespace and t.topic = o.output ->> 'topic'
        where o.output ->> 'becomes' = 'event'
        group by t.topic_id
    loop
        -- Held already, unless a correlator has got this output since the topics were locked.
        perform from headrace_internal.topic t where t.topic_id = v_topic.topic_id for no key update;
        perform headrace_internal.erase_events(p_erasure, v_topic.topic_id,
            headrace_internal.positions_of(v_topic.topic_id, v_topic.event_ids), v_topic.event_ids, '{}', null, true);
    end loop;
end
$$;
