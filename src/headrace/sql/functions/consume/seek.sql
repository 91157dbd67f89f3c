-- Moves all cursors of a consumer, or that of one partition, to a target and returns, per partition, from where to where and the number of events: events > 0
-- will be handled again, events < 0 will be skipped. With p_preview nothing moves.
-- A consumer of rules or of a correlator does not move (HR223): its state moves only with its events.
-- Clears a stop, a pending retry and its error. Locks: the consumer's cursors, so it waits for running handlers.
create or replace function headrace.seek(
    p_topic     text,
    p_consumer  text,
    p_target    text,
    p_preview   boolean default false,
    p_namespace text default null,
    p_partition integer default null,
    p_caller    headrace_internal.caller default current_user
) returns table (partition integer, from_position bigint, to_position bigint, events bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_topic_id    integer := headrace.topic_id(p_topic, v_namespace);
    v_to          bigint := headrace.seek_position(v_topic_id, p_target);
begin
    if p_partition is not null and not exists (
            select from headrace_internal.cursor c where c.consumer_id = v_consumer_id and c.partition = p_partition) then
        raise exception 'consumer "%" of topic "%" has no partition %, only %', p_consumer, p_topic, p_partition, (
                select case when max(c.partition) < 0 then 'one cursor over the whole topic'
                    else format('%s to %s', min(c.partition), max(c.partition)) end
                from headrace_internal.cursor c where c.consumer_id = v_consumer_id)
            using errcode = 'HR300', hint = 'See: headrace consumer lag.';
    end if;
    if not p_preview then
        perform headrace_internal.refuse_reserved_consumer(p_consumer, p_is_seek => true);
        perform from headrace_internal.cursor c where c.consumer_id = v_consumer_id and (p_partition is null or c.partition = p_partition)
        order by c.partition for no key update;
    end if;
    -- By the topic's own branch: by the whole log it would be planned for, and lock, every topic.
    return query execute format(
        'select c.partition, c.position, $2, sign(c.position - $2)::bigint * ('
        'select count(*) from headrace_internal.%I l where (c.partition = -1 or l.partition = c.partition) '
        'and l.position > least(c.position, $2) and l.position <= greatest(c.position, $2)) '
        'from headrace_internal.cursor c where c.consumer_id = $1 and ($3 is null or c.partition = $3) order by c.partition',
        'log_' || v_topic_id)
    using v_consumer_id, v_to, p_partition;
    if not p_preview then
        update headrace_internal.cursor c
        set position = v_to, state = 'running', attempts = 0, retry_at = null, error = null, traceback = null, single_to = 0,
            moved_at = headrace.clock()
        where c.consumer_id = v_consumer_id and (p_partition is null or c.partition = p_partition);
        perform headrace_internal.notify('headrace_log', v_topic_id::text);
    end if;
end
$$;
