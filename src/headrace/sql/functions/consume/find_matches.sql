-- Looks for events after a cursor for which a consumer's condition, in its compiled form, is true: among the next 1 000, and if none of
-- these is, among 10 000 more. has_matches: a batch is due, its events are in the positions up to upto. Otherwise upto is how far the
-- cursor may go, because nothing before it matches; null if there are no events. has_more: more events follow upto.
-- Fewer than p_min matches are a batch only when the oldest has waited p_wait_s seconds, or more events follow.
-- It names the topic's own branch, see headrace_internal.next_position. Indexes: log_partition, log_position.
create or replace function headrace_internal.find_matches(
    p_consumer_id bigint, p_topic_id integer, p_partition integer, p_position bigint, p_filter text, p_min integer,
    p_wait_s double precision, out upto bigint, out has_matches boolean, out has_more boolean
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_from   bigint := p_position;
    v_max    integer;
    v_end    record;
    v_first  bigint;
begin
    has_matches := false;
    has_more := false;
    foreach v_max in array array[1000, 10000] loop
        v_end := headrace_internal.batch_end(p_consumer_id, p_topic_id, p_partition, v_from, v_max);
        has_more := v_end.events = v_max;
        exit when v_end.events = 0;
        upto := v_end.upto;
        execute format(
            'select l.position from headrace_internal.%I l where (%s) and l.position <= $3 and %s limit 1', 'log_' || p_topic_id, p_filter,
            case when p_partition < 0 then 'l.position > $2 order by l.position'
                else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position' end)
        into v_first using p_partition, v_from, upto;
        exit when v_first is not null or not has_more;
        v_from := upto;
    end loop;
    if v_first is null then
        return;
    end if;
    has_matches := p_min = 1 or has_more
        or headrace_internal.has_batch(p_topic_id, p_partition, p_position, p_min, p_wait_s, p_filter, upto);
    if not has_matches then
        upto := v_first - 1;
    end if;
end
$$;
