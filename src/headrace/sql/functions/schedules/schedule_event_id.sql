-- The id of a tick's event: a uuid (version 8) from schedule and moment. It is the same whoever fires the tick, so the log drops a
-- second event as a repetition.
create or replace function headrace_internal.schedule_event_id(p_uid uuid, p_tick_at timestamptz) returns uuid
language sql immutable strict parallel safe
as $$
    select encode(set_bit(set_bit(set_byte(h.hash, 6, get_byte(h.hash, 6) & 15 | 128), 71, 1), 70, 0), 'hex')::uuid
    from (
        select substring(sha256(uuid_send(p_uid) || int8send((extract(epoch from p_tick_at) * 1000000)::bigint)) for 16)
    ) h (hash)
$$;
