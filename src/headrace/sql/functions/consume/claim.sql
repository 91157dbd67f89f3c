-- Claims partitions of a consumer like headrace.claim_events, and returns only which events: those after "position" up to "upto". They
-- can be read from headrace.log. Raises HR300 for a consumer with a condition: headrace.claim_events gives only the events that match.
create or replace function headrace.claim(
    p_consumer_id bigint,
    p_max         integer,
    p_min         integer default 1,
    p_wait_s      double precision default 0,
    p_partitions  integer default 1,
    p_caller      headrace_internal.caller default current_user
) returns table (partition integer, "position" bigint, upto bigint, events integer, attempts integer)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    if exists (select from headrace_internal.consumer c where c.consumer_id = p_consumer_id and c.condition is not null) then
        raise exception 'consumer % has a condition, and headrace.claim cannot say which events match', p_consumer_id
            using errcode = 'HR300', hint = 'Use headrace.claim_events.';
    end if;
    return query
    select c.partition, c.position, c.upto, (c.payload ->> 'events')::integer, (c.payload ->> 'attempts')::integer
    from (
        select e.partition, e.position, e.event_id, e.payload, lag(e.position) over (order by e.number) as upto
        from headrace.claim_events(p_consumer_id, p_max, p_min, p_wait_s, p_partitions) with ordinality
            e ("position", partition, event_id, topic, type, key, payload, headers, emitted_at, appended_at, producer, number)
    ) c
    where c.event_id is null and c.payload ->> 'events' <> '0';
end
$$;
