-- Stages rows of one task's attempt of a Spark batch. A row that breaks a limit raises here, before anything is published.
-- Takes the level publish. The arrays have one element per row.
create or replace function headrace.stage_rows(
    p_query text, p_batch bigint, p_token uuid, p_place bigint[], p_topic text[], p_type text[], p_key text[], p_payload text[],
    p_headers text[], p_event_id text[], p_emitted_at timestamptz[], p_producer text[], p_priority integer[],
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace);
begin
    insert into headrace_internal.spark_stage
        (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, emitted_at, producer, priority)
    select v_namespace, p_query, p_batch, p_token, r.place, r.topic, r.type, r.key, r.payload, r.headers,
        coalesce(r.event_id::uuid, headrace.uuid_v7()), r.emitted_at, r.producer, coalesce(r.priority, 0)
    from (
        select u.place, u.topic, u.type, u.key, u.payload::jsonb as payload, coalesce(u.headers::jsonb, '{}') as headers, u.event_id,
            u.emitted_at, u.producer, u.priority
        from unnest(p_place, p_topic, p_type, p_key, p_payload, p_headers, p_event_id, p_emitted_at, p_producer, p_priority)
            u (place, topic, type, key, payload, headers, event_id, emitted_at, producer, priority)
        -- Without it the planner merges the queries, and every payload is parsed twice.
        offset 0
    ) r
    where headrace.event_within_limits(r.type, r.key, r.payload, r.headers, r.producer) and headrace.time_within_limits(r.emitted_at);
end
$$;
