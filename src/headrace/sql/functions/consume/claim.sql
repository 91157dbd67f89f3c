-- Claims partitions of a consumer that have events due and returns which events: those after "position" up to "upto".
-- No row: nothing is due, or the consumer is paused. At most p_partitions and p_max events in total, the partitions longest unmoved first; fewer than p_min
-- events of a partition only when the oldest has waited p_wait_s seconds.
-- The claim is the row lock on the cursor: it ends with the transaction, so a dead process holds nothing.
-- The border that the consumer may not pass yet is read in the same statement as the events: an event beyond a border is visible
-- only together with the border.
-- Locks: cursor rows, no key update, skip locked. Indexes: log_partition, or log_position for a cursor over the topic.
create or replace function headrace.claim(
    p_consumer_id integer,
    p_max         integer,
    p_min         integer default 1,
    p_wait_s      double precision default 0,
    p_partitions  integer default 1,
    p_caller      headrace_internal.caller default current_user
) returns table (partition integer, "position" bigint, upto bigint, events integer, attempts integer)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_topic_id integer;
    v_bound    bigint;
    v_next     record;
    v_left     integer := p_max;
    v_max      integer;
    v_cursor   record;
    v_oldest   timestamptz;
    v_claimed  integer := 0;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    if exists (select from headrace_internal.pause p where p.consumer_id = p_consumer_id) then
        return;
    end if;
    select c.topic_id into v_topic_id from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    v_bound := headrace_internal.consumer_bound(p_consumer_id, v_topic_id);
    -- One partition after the other: under load the first one has events.
    <<partitions>>
    for v_next in
        select c.partition, c.position, c.attempts, c.single_to from headrace_internal.cursor c
        where c.consumer_id = p_consumer_id
            and c.state = 'running' and (c.retry_at is null or c.retry_at <= headrace.clock())
        order by c.moved_at
    loop
        continue when v_next.partition >= 0
            and coalesce(headrace_internal.next_position(v_topic_id, v_next.partition, v_next.position) > v_bound, true);
        -- A lock stays to the end of the transaction, so a partition that may have too few events is first checked without it:
        -- locked for nothing, its events would wait for the handler of another one.
        for v_round in case when p_min > 1 then 1 else 2 end .. 2 loop
            if v_round = 1 then
                v_cursor := v_next;
            else
                select c.partition, c.position, c.attempts, c.single_to into v_cursor
                from headrace_internal.cursor c
                where c.consumer_id = p_consumer_id and c.partition = v_next.partition
                    and c.state = 'running' and (c.retry_at is null or c.retry_at <= headrace.clock())
                for no key update skip locked;
                continue partitions when not found;
            end if;
            v_max := case when v_cursor.single_to > v_cursor.position then 1 when v_round = 1 then least(p_min, v_left) else v_left end;
            if v_cursor.partition < 0 then
                select max(d.position), count(*), min(d.appended_at) into upto, events, v_oldest
                from (
                    select l.position, l.appended_at from headrace_internal.log l
                    where l.topic_id = v_topic_id and l.position > v_cursor.position order by l.position limit v_max
                ) d;
            else
                select max(d.position), count(*), min(d.appended_at) into upto, events, v_oldest
                from (
                    select l.position, l.appended_at from headrace_internal.log l
                    where l.topic_id = v_topic_id and l.partition = v_cursor.partition
                        and l.position > v_cursor.position
                        and l.position <= (select headrace_internal.consumer_bound(p_consumer_id, v_topic_id))
                    order by l.position limit v_max
                ) d;
            end if;
            continue partitions when events = 0
                or (events < least(p_min, v_max) and v_oldest > headrace.clock() - make_interval(secs => p_wait_s));
        end loop;
        partition := v_cursor.partition;
        position := v_cursor.position;
        attempts := v_cursor.attempts;
        return next;
        v_claimed := v_claimed + 1;
        v_left := v_left - events;
        exit when v_claimed = p_partitions or v_left < p_min;
    end loop;
end
$$;
