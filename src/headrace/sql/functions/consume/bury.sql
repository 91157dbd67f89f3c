-- Moves an event of the log to the dead letters of a consumer. Index: log_position.
create or replace function headrace_internal.bury(
    p_consumer_id integer,
    p_partition   integer,
    p_position    bigint,
    p_state       text,
    p_reason      text,
    p_error       text,
    p_attempts    integer
) returns void
language sql volatile
as $$
    insert into headrace.dead_letter
        (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, error, attempts)
    select p_consumer_id, p_partition, l.position, l.event_id, l.type, l.key, l.payload, l.headers,
        p_state, p_reason, left(p_error, 10000), p_attempts
    from headrace.consumer c
    join headrace.log l on l.topic_id = c.topic_id and l.position = p_position
    where c.consumer_id = p_consumer_id
    on conflict on constraint dead_letter_once do update
    set state = excluded.state, reason = excluded.reason, error = excluded.error, attempts = excluded.attempts, ended_at = null
$$;
