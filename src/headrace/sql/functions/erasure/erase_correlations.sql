-- Erases what correlators of a topic keep of these events: captured values, keys that were computed from payloads, and instances, whose
-- keys start again with their next event. Call it while the log still has the payloads. p_key is the key of the events, null for
-- outputs of other correlators; p_times are the times of events that only the archive has.
-- Returns the outputs that quote the events: 'action' or 'event', topic (of an event) and id.
-- Locks: the cursors of the topic's rules and correlators, before the rows: a batch that runs would send an action with the payload it
-- has read, or write an instance back.
create or replace function headrace_internal.erase_correlations(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_positions bigint[], p_event_ids uuid[], p_times timestamptz[], p_key text
) returns table (becomes text, topic text, output_id uuid)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_salt       text := gen_random_uuid()::text;
    v_correlator record;
    v_keys       text[];
    v_affected   bigint[];
    v_instances  bigint;
    v_outputs    bigint;
begin
    perform from headrace_internal.cursor u
    where u.consumer_id in (
        select t.consumer_id from headrace_internal.correlator_table t
        join headrace_internal.correlator c on c.correlator_id = t.correlator_id where c.topic_id = p_topic_id
        union all
        select c.consumer_id from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = 'headrace.rules')
    order by u.consumer_id, u.partition for no key update;
    -- Also dropped ones, whose outputs are kept.
    for v_correlator in
        select v.correlator_id, coalesce(bool_and(v.key = 'key'), false) as by_event_key
        from headrace_internal.correlator_version v where v.topic_id = p_topic_id group by v.correlator_id
    loop
        v_keys := case when v_correlator.by_event_key then array[p_key]
            else headrace_internal.computed_keys(v_correlator.correlator_id, p_positions) || p_key end;
        v_keys := array(select k.key from unnest(v_keys) k (key) where k.key <> '');
        -- By key and by evidence. What was cut from the evidence is not known: such rows of computed keys are erased, too.
        delete from headrace_internal.correlator_instance i
        where i.correlator_id = v_correlator.correlator_id and (i.key = any (v_keys) or i.evidence && p_positions
            or not v_correlator.by_event_key and (i.evidence_total > cardinality(i.evidence) or i.seen_at = any (p_times)));
        get diagnostics v_instances = row_count;
        perform headrace_internal.count_erased(p_erasure.erasure_id, 'correlator instances', v_instances);
        v_affected := array(
            select f.correlation_id
            from headrace_internal.correlation f join headrace_internal.correlator_version v on v.version_id = f.version_id
            where f.topic_id = p_topic_id and v.correlator_id = v_correlator.correlator_id
                and (f.event_id = any (p_event_ids) or f.evidence && p_positions or f.key = any (v_keys)
                    or not v_correlator.by_event_key and f.evidence_total > cardinality(f.evidence)));
        return query
        select f.becomes, v.outputs -> f.token ->> 'topic', f.output_id
        from headrace_internal.correlation f join headrace_internal.correlator_version v on v.version_id = f.version_id
        where f.correlation_id = any (v_affected) and f.becomes is not null;
        -- A new key for each old one, so that outputs stay apart. The salt is forgotten: nobody can compute it again.
        update headrace_internal.correlation f
        set captured = case when f.captured is not null then '{}'::jsonb end,
            key = case when f.key = '' or f.key like 'erased-%' then f.key
                when f.key = p_key then coalesce(p_erasure.new_key, f.key)
                when v_correlator.by_event_key then f.key
                else 'erased-' || left(encode(sha256(convert_to(v_salt || f.key, 'UTF8')), 'hex'), 32) end
        where f.correlation_id = any (v_affected);
        get diagnostics v_outputs = row_count;
        perform headrace_internal.count_erased(p_erasure.erasure_id, 'correlator outputs', v_outputs);
    end loop;
    perform headrace_internal.erase_streams(p_erasure, p_topic_id, p_positions, p_key);
end
$$;
