-- The events of a topic after a position, in order, at most p_limit. Takes the level consume.
-- It names the topic's own branch of the log: headrace.log is planned for, and locks, the logs of all topics unless the statement has
-- the topic's id as a constant. Index: log_position.
create or replace function headrace.read_log(
    p_topic_id integer,
    p_after    bigint default 0,
    p_limit    integer default 1000,
    p_caller   headrace_internal.caller default current_user
) returns table (
    "position" bigint, partition integer, event_id uuid, topic text, type text, key text, payload jsonb, headers jsonb,
    emitted_at timestamptz, appended_at timestamptz, producer text)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_topic text;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select t.topic into v_topic from headrace_internal.topic t where t.topic_id = p_topic_id;
    if not found then
        return;
    end if;
    return query execute format(
        'select l.position, l.partition, l.event_id, $1, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer '
        'from headrace_internal.%I l where l.position > $2 order by l.position limit $3', 'log_' || p_topic_id)
    using v_topic, p_after, p_limit;
end
$$;
