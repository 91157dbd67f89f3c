-- Creates a consumer, or changes the policy of an existing one; returns its id. The cursors of a new one start at p_start:
-- 'earliest' or 'latest'. An existing one keeps its positions; another order (partition, topic) is rejected (HR202),
-- and so is a name that starts with "headrace." or "relay." (HR223). With p_where it gets only the events for which the condition is true. The
-- condition is compiled by a node, like that of a rule; until then, and if it is invalid, the consumer stands still: see
-- condition_status in headrace.consumer. A changed condition applies from the cursor on.
-- p_session_limit_s: how long a session may be idle while it holds a claim, before the server ends it and another one takes over; for a
-- new consumer 60, else unchanged.
-- Locks: the topic row, so that 'latest' is a definite position.
create or replace function headrace.create_consumer(
    p_topic          text,
    p_consumer       text,
    p_start          text default 'earliest',
    p_ordered_by     text default 'partition',
    p_attempts_max   integer default null,
    p_backoff_s      double precision default 1,
    p_backoff_max_s  double precision default 300,
    p_when_exhausted text default 'stop',
    p_key_order      text default 'hold',
    p_namespace      text default null,
    p_where          text default null,
    p_session_limit_s double precision default null,
    p_caller         headrace_internal.caller default current_user
) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_topic     record;
    v_consumer  record;
    v_position  bigint;
begin
    perform headrace_internal.refuse_reserved_consumer(p_consumer);
    if p_start not in ('earliest', 'latest') then
        raise exception 'a consumer starts at "earliest" or "latest", not at "%"', p_start using errcode = 'HR300';
    end if;
    select t.topic_id, t.partitions, t.dropped_to into v_topic
    from headrace_internal.topic t where t.topic_id = headrace.topic_id(p_topic, v_namespace) for no key update;
    select c.consumer_id, c.ordered_by into v_consumer
    from headrace_internal.consumer c where c.topic_id = v_topic.topic_id and c.consumer = p_consumer;
    if found and v_consumer.ordered_by <> p_ordered_by then
        raise exception 'consumer "%" is ordered by %, not by %', p_consumer, v_consumer.ordered_by, p_ordered_by
            using errcode = 'HR202', hint = 'Drop the consumer, or give the new one another name.';
    end if;
    -- Tried first: an insert on conflict uses up an id, and ids are integers. The lock on the topic keeps others from inserting it.
    update headrace_internal.consumer c
    set attempts_max = p_attempts_max, backoff_s = p_backoff_s, backoff_max_s = p_backoff_max_s, when_exhausted = p_when_exhausted,
        key_order = p_key_order, condition = p_where, session_limit_s = coalesce(p_session_limit_s, c.session_limit_s),
        filter = case when c.condition = p_where then c.filter end,
        condition_error = case when c.condition = p_where then c.condition_error end
    where c.topic_id = v_topic.topic_id and c.consumer = p_consumer
    returning c.consumer_id, c.ordered_by, c.condition is not null and c.filter is null and c.condition_error is null as is_pending
    into v_consumer;
    if not found then
        insert into headrace_internal.consumer as c
            (topic_id, consumer, ordered_by, attempts_max, backoff_s, backoff_max_s, when_exhausted, key_order, condition, session_limit_s)
        values (v_topic.topic_id, p_consumer, p_ordered_by, p_attempts_max, p_backoff_s, p_backoff_max_s, p_when_exhausted, p_key_order, p_where,
            coalesce(p_session_limit_s, 60))
        returning c.consumer_id, c.ordered_by, c.condition is not null as is_pending into v_consumer;
    end if;
    if v_consumer.is_pending then
        perform headrace_internal.notify('headrace_rule', '');
    end if;
    v_position := case when p_start = 'latest'
        then coalesce((select h.position from headrace.log_head(v_topic.topic_id) h), v_topic.dropped_to)
        else v_topic.dropped_to end;
    insert into headrace_internal.cursor (consumer_id, partition, position)
    select v_consumer.consumer_id, p.partition, v_position
    from generate_series(case when p_ordered_by = 'topic' then -1 else 0 end,
        case when p_ordered_by = 'topic' then -1 else v_topic.partitions - 1 end) p (partition)
    on conflict on constraint cursor_pkey do nothing;
    perform headrace_internal.add_claims(v_topic.topic_id);
    return v_consumer.consumer_id;
end
$$;
