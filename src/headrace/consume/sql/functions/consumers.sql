-- Raises HR223 for a consumer that belongs to rules, to a correlator or to a relay: only what owns it creates and drops it. The cursors
-- of a relay may be moved like those of a consumer; rules and correlators have state that moves only with their events.
create or replace function headrace_internal.refuse_reserved_consumer(p_consumer text, p_is_seek boolean default false) returns void
language plpgsql immutable
as $$
begin
    if p_consumer like 'relay.%' and not p_is_seek then
        raise exception 'consumer "%" belongs to relay "%"', p_consumer, substr(p_consumer, length('relay.') + 1)
            using errcode = 'HR223', hint = 'Change or drop the relay. The names of other consumers must not start with "relay.".';
    end if;
    if p_consumer like 'headrace.%' then
        raise exception 'consumer "%" belongs to %', p_consumer, case
            when p_consumer like 'headrace.correlator.%' then format('correlator "%s"', substr(p_consumer, length('headrace.correlator.') + 1))
            else 'the rules of its topic' end
            using errcode = 'HR223', hint = case when p_consumer like 'headrace.correlator.%'
                then 'Change or drop the correlator. To start its keys again: update headrace.correlator set restart = true.'
                else 'Change or drop the rules. The names of other consumers must not start with "headrace.".' end;
    end if;
end
$$;

-- Returns the id of a consumer; raises HR102 if it does not exist.
-- Calls: topic_id.
create or replace function headrace_internal.consumer_id(p_topic text, p_consumer text, p_namespace text default null) returns bigint
language plpgsql stable
as $$
declare
    v_topic_id    integer := headrace.topic_id(p_topic, p_namespace);
    v_consumer_id bigint;
    v_known       text;
begin
    select c.consumer_id into v_consumer_id
    from headrace_internal.consumer c where c.topic_id = v_topic_id and c.consumer = p_consumer;
    if v_consumer_id is null then
        select string_agg(c.consumer, ', ' order by c.consumer) into v_known
        from headrace_internal.consumer c where c.topic_id = v_topic_id;
        raise exception 'topic "%" has no consumer "%"', p_topic, p_consumer
            using errcode = 'HR102', hint = format('Known consumers: %s.', coalesce(v_known, 'none'));
    end if;
    return v_consumer_id;
end
$$;

-- Creates the internal consumer of a topic's rules or of a correlator, at the head of the log. It holds back retention, so it
-- exists only while they do. Two calls at once create one consumer. Always true.
-- Locks: the consumer row, key share, to the end of the transaction. Whoever would drop the consumer because nothing needs it must
-- not do so before this transaction, whose rule needs it, has ended: see unwatch.
-- Calls: log_head.
create or replace function headrace_internal.create_internal_consumer(p_topic_id integer, p_consumer text) returns boolean
language plpgsql volatile
as $$
declare
    v_consumer_id bigint;
begin
    loop
        insert into headrace_internal.consumer (topic_id, consumer, ordered_by) values (p_topic_id, p_consumer, 'topic')
        on conflict on constraint consumer_name_unique do nothing
        returning consumer_id into v_consumer_id;
        if v_consumer_id is not null then
            insert into headrace_internal.cursor (consumer_id, partition, position)
            select v_consumer_id, -1, coalesce((select h.position from headrace.log_head(p_topic_id) h), t.dropped_to)
            from headrace_internal.topic t where t.topic_id = p_topic_id;
            return true;
        end if;
        perform from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = p_consumer for key share;
        -- Not found: it was dropped while we waited for its lock.
        if found then
            return true;
        end if;
    end loop;
end
$$;

-- Adds the row of headrace_internal.claim for each new cursor of a topic's consumers; rules and correlators need none.
-- Index: consumer_name_unique, cursor_pkey. Call it while the topic is locked.
create or replace function headrace_internal.add_claims(p_topic_id integer) returns void
language sql volatile
as $$
    insert into headrace_internal.claim (consumer_id, partition)
    select u.consumer_id, u.partition
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id
    where c.topic_id = p_topic_id and c.consumer not like 'headrace.%'
    on conflict on constraint claim_pkey do nothing
$$;

-- Creates a consumer of a topic, or changes the policy of an existing one, and adds the cursors that it lacks; returns its id. Tried as an
-- update first: an insert on conflict uses up an id. Nodes are notified of a condition that they have to compile. The caller holds the
-- topic row where 'latest' must be a definite position.
-- Calls: notify, log_head, add_claims.
create or replace function headrace_internal.keep_consumer(
    p_topic_id integer, p_consumer text, p_start text, p_ordered_by text, p_attempts_max integer, p_backoff_s double precision,
    p_backoff_max_s double precision, p_when_exhausted text, p_key_order text, p_where text, p_session_limit_s double precision default null,
    p_latency_ms integer default null
) returns bigint
language plpgsql volatile
as $$
declare
    v_consumer record;
begin
    update headrace_internal.consumer c
    set attempts_max = p_attempts_max, backoff_s = p_backoff_s, backoff_max_s = p_backoff_max_s, when_exhausted = p_when_exhausted,
        key_order = p_key_order, condition = p_where, session_limit_s = coalesce(p_session_limit_s, c.session_limit_s),
        latency_ms = coalesce(p_latency_ms, c.latency_ms),
        filter = case when c.condition = p_where then c.filter end,
        condition_error = case when c.condition = p_where then c.condition_error end
    where c.topic_id = p_topic_id and c.consumer = p_consumer
    returning c.consumer_id, c.condition is not null and c.filter is null and c.condition_error is null as is_pending into v_consumer;
    if not found then
        insert into headrace_internal.consumer as c
            (topic_id, consumer, ordered_by, attempts_max, backoff_s, backoff_max_s, when_exhausted, key_order, condition, session_limit_s,
            latency_ms)
        values (p_topic_id, p_consumer, p_ordered_by, p_attempts_max, p_backoff_s, p_backoff_max_s, p_when_exhausted, p_key_order, p_where,
            coalesce(p_session_limit_s, 60), coalesce(p_latency_ms, 10))
        returning c.consumer_id, c.condition is not null as is_pending into v_consumer;
    end if;
    if v_consumer.is_pending then
        perform headrace_internal.notify('headrace_rule', '');
    end if;
    insert into headrace_internal.cursor (consumer_id, partition, position)
    select v_consumer.consumer_id, p.partition,
        coalesce(case when p_start = 'latest' then (select h.position from headrace.log_head(p_topic_id) h) end, t.dropped_to)
    from headrace_internal.topic t
    cross join generate_series(case p_ordered_by when 'topic' then -1 else 0 end, case p_ordered_by when 'topic' then -1 else t.partitions - 1 end)
        p (partition)
    where t.topic_id = p_topic_id
    on conflict on constraint cursor_pkey do nothing;
    perform headrace_internal.add_claims(p_topic_id);
    return v_consumer.consumer_id;
end
$$;

-- Creates a consumer, or changes the policy of an existing one; returns its id. The cursors of a new one start at p_start:
-- 'earliest' or 'latest'. An existing one keeps its positions; another order (partition, topic) is rejected (HR202),
-- and so is a name that starts with "headrace." or "relay." (HR223). With p_where it gets only the events for which the condition is true. The
-- condition is compiled by a node, like that of a rule; until then, and if it is invalid, the consumer stands still: see
-- condition_status in headrace.consumer. A changed condition applies from the cursor on.
-- p_session_limit_s: how long a session may be idle while it holds a claim, before the server ends it and another one takes over; for a
-- new consumer 60, else unchanged. p_latency_ms: for how long its events may wait for company from commit to handler; for a new consumer 10,
-- else unchanged.
-- Locks: the topic row, so that 'latest' is a definite position.
-- Calls: refuse_reserved_consumer, topic_id, keep_consumer.
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
    p_latency_ms     integer default null,
    p_caller         headrace_internal.caller default current_user
) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_topic_id  integer;
    v_order     text;
begin
    perform headrace_internal.refuse_reserved_consumer(p_consumer);
    if p_start not in ('earliest', 'latest') then
        raise exception 'a consumer starts at "earliest" or "latest", not at "%"', p_start using errcode = 'HR300';
    end if;
    select t.topic_id into v_topic_id
    from headrace_internal.topic t where t.topic_id = headrace.topic_id(p_topic, v_namespace) for no key update;
    select c.ordered_by into v_order from headrace_internal.consumer c where c.topic_id = v_topic_id and c.consumer = p_consumer;
    if v_order <> p_ordered_by then
        raise exception 'consumer "%" is ordered by %, not by %', p_consumer, v_order, p_ordered_by
            using errcode = 'HR202', hint = 'Drop the consumer, or give the new one another name.';
    end if;
    return headrace_internal.keep_consumer(v_topic_id, p_consumer, p_start, p_ordered_by, p_attempts_max, p_backoff_s, p_backoff_max_s,
        p_when_exhausted, p_key_order, p_where, p_session_limit_s, p_latency_ms);
end
$$;

-- Stores the compiled form of a consumer's condition, or why it has none, unless the condition was changed meanwhile; wakes the
-- consumer. Only the owner and nodes may call it: p_filter is executed with the owner's rights. True if it was stored; false also while
-- another transaction holds the consumer's row, so that no role can make the conditions of others wait.
-- Locks: the consumer row, skip locked.
-- Calls: notify.
create or replace function headrace_internal.compile_condition(p_consumer_id bigint, p_condition text, p_filter text, p_error text)
returns boolean
language plpgsql volatile
as $$
begin
    update headrace_internal.consumer c set filter = p_filter, condition_error = left(p_error, 2000)
    where c.condition = p_condition and c.consumer_id = (
        select l.consumer_id from headrace_internal.consumer l where l.consumer_id = p_consumer_id for no key update skip locked);
    if not found then
        return false;
    end if;
    perform headrace_internal.notify('headrace_log', c.topic_id::text) from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    return true;
end
$$;

-- Drops a consumer with its cursors and dead letters. A consumer of rules, of a correlator or of a relay is rejected (HR223).
-- Calls: refuse_reserved_consumer, consumer_id.
create or replace function headrace.drop_consumer(
    p_topic text, p_consumer text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    select headrace_internal.refuse_reserved_consumer(p_consumer);
    delete from headrace_internal.consumer c where c.consumer_id = headrace_internal.consumer_id(p_topic, p_consumer, p_namespace);
$$;

-- Was the last claim of a cursor rolled back, and has nobody recorded since what followed? p_claimed_by is the xmax of its row in
-- headrace_internal.claim, p_written_by the xmin of the cursor: whatever is recorded writes the cursor, in a later transaction. False
-- while the claim lasts, and for one so old that nobody knows any more. Locks nothing.
-- Calls: transaction_status.
create or replace function headrace_internal.is_claim_lost(p_claimed_by xid, p_written_by xid) returns boolean
language sql stable
as $$
    select coalesce(headrace_internal.transaction_status(p_claimed_by) = 'aborted' and age(p_written_by) >= age(p_claimed_by), false)
$$;

-- Says of claims whose transaction was rolled back that their worker lives and that no event did it, for example after a lost
-- connection. Without it the next claim would take them for lost, see headrace_internal.count_lost_claim. p_positions are where the
-- cursors stand; null: wherever.
-- Locks: the cursor rows, skip locked. Index: cursor_pkey. It writes the cursors, which is what headrace_internal.is_claim_lost looks at.
create or replace function headrace.release_claims(
    p_consumer_id bigint, p_partitions integer[], p_positions bigint[], p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    update headrace_internal.cursor c set moved_at = c.moved_at
    where (c.consumer_id, c.partition) in (
        select u.consumer_id, u.partition
        from unnest(p_partitions, p_positions) p (partition, position)
        join headrace_internal.cursor u on u.consumer_id = p_consumer_id and u.partition = p.partition
        where u.position = coalesce(p.position, u.position)
        for no key update of u skip locked);
end
$$;
