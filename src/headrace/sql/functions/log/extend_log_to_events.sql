-- Creates the time partitions for the events that wait in the outbox up to an id, in a topic whose clock is the events' own and
-- stands at p_time (null: the log is empty). Returns where the partitions end. Index: outbox_order.
create or replace function headrace_internal.extend_log_to_events(
    p_topic_id integer, p_time timestamptz, p_bound bigint
) returns timestamptz
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_width text := (select t.time_partition from headrace_internal.topic t where t.topic_id = p_topic_id);
    v_step  interval := '1 ' || v_width;
    v_until timestamptz := date_trunc(v_width, p_time) + v_step;
    v_at    timestamptz;
begin
    for v_at in
        select distinct date_trunc(v_width, headrace_internal.clamp_time(o.emitted_at))
        from headrace_internal.outbox o
        where o.topic_id = p_topic_id and o.id <= p_bound and (v_until is null or o.emitted_at >= v_until)
        order by 1
    loop
        perform headrace_internal.extend_log(p_topic_id, v_at);
        v_until := v_at + 3 * v_step;
    end loop;
    return v_until;
end
$$;
