-- Fires rules on events: records the firings and sends their actions, together. A version that has fired on an event does not fire
-- again, and its action is not sent again. The actions of a paused rule are held in the queue until it is resumed. Returns the number of firings. Index: firing_once.
-- Calls: hash_id, hold_s, send_actions.
create or replace function headrace_internal.fire(p_topic_id integer, p_hits headrace_internal.rule_hit[]) returns integer
language plpgsql volatile
as $$
declare
    v_now       timestamptz := headrace.clock();
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
    v_paused    bigint[];
begin
    -- Most of the time no rule is paused. For share: a resume waits until our actions are in the queue, and then releases them.
    if exists (select from headrace_internal.pause p where p.rule_id is not null) then
        select array_agg(p.rule_id) into v_paused
        from (
            select p.rule_id from headrace_internal.pause p
            where p.rule_id in (
                select v.rule_id from unnest(p_hits) h join headrace_internal.rule_version v on v.version_id = h.version_id)
            order by p.rule_id for share) p;
    end if;
    with fired as (
        insert into headrace_internal.firing (topic_id, position, event_id, rule_version_id, action, action_id, fired_at)
        select p_topic_id, h.position, h.event_id, h.version_id, v.action, headrace_internal.hash_id(h.event_id::text || ':' || h.version_id::text), v_now
        from unnest(p_hits) with ordinality h (version_id, position, event_id, type, key, payload, emitted_at, producer, trace, n)
        join headrace_internal.rule_version v on v.version_id = h.version_id
        order by h.n
        on conflict on constraint firing_once do nothing
        returning firing_id, event_id, rule_version_id, action_id
    )
    -- to_jsonb of a row: jsonb_build_object looks up the type of every argument again (10 µs of CPU against 6 to 9, measured).
    select t.namespace,
        array_agg(case when h.trace is null then to_jsonb(envelope) else to_jsonb(envelope) || jsonb_build_object('headers', h.trace) end
            order by f.firing_id),
        array_agg(v.delay_s + case when v.rule_id = any (v_paused) then headrace_internal.hold_s() else 0 end order by f.firing_id)
    into v_namespace, v_actions, v_delays
    from fired f
    join unnest(p_hits) h on h.event_id = f.event_id and h.version_id = f.rule_version_id
    join headrace_internal.rule_version v on v.version_id = f.rule_version_id
    join headrace_internal.topic t on t.topic_id = p_topic_id
    cross join lateral (
        select 'rule' as kind, v.rule, v.version, t.topic, h.position, h.event_id, f.firing_id
    ) cause
    cross join lateral (
        select f.action_id as id, v.action, h.payload, h.key, v.priority, t.namespace, h.event_type, h.emitted_at, h.producer, cause
    ) envelope
    group by t.namespace;
    if v_actions is null then
        return 0;
    end if;
    -- Without delays, one insert is enough.
    perform headrace.send_actions(v_namespace, v_actions, case when 0 = all (v_delays) then null else v_delays end);
    return cardinality(v_actions);
end
$$;

-- Fires rules that another engine has matched: version p_version_ids[i] on the event at p_positions[i], in order, in the transaction that
-- also moves the rules' cursor. Returns the number of firings. Index: log_position. It queries the topic's own branch: a query on the whole
-- log plans and locks every topic. Runs as the owner: a node has no right on a branch.
-- Calls: trace_headers, fire.
create or replace function headrace_internal.fire_rules(p_topic_id integer, p_version_ids bigint[], p_positions bigint[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_hits    headrace_internal.rule_hit[];
    v_firings bigint := 0;
begin
    -- Send in chunks, because an array is limited to 1 GB, and a payload may have 1 MB.
    for v_hits in execute format($statement$
        select array_agg(h.hit order by h.n)
        from (
            select row(h.version_id, h.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer,
                headrace_internal.trace_headers(l.headers))::headrace_internal.rule_hit as hit,
                h.n, sum(pg_column_size(l.payload)) over (order by h.n rows unbounded preceding) as bytes
            from unnest($1, $2) with ordinality h (version_id, position, n)
            cross join lateral (
                select l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer, l.headers
                from headrace_internal.%I l where l.position = h.position limit 1
            ) l
        ) h
        group by h.n / 1000, h.bytes / 16000000
        order by min(h.n)
        $statement$, 'log_' || p_topic_id) using p_version_ids, p_positions
    loop
        v_firings := v_firings + headrace_internal.fire(p_topic_id, v_hits);
    end loop;
    return v_firings;
end
$$;

-- Sets the positions of inline firings for events up to p_upto. Indexes: firing_position, log_event_id.
create or replace function headrace_internal.place_firings(p_topic_id integer, p_upto bigint) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    if exists (select from headrace_internal.firing f where f.topic_id = p_topic_id and f.position is null) then
        -- Queries the topic's own branch: a query on the whole log plans and locks every topic.
        execute format('update headrace_internal.firing f set position = l.position from headrace_internal.%I l '
            'where f.topic_id = $1 and f.position is null and l.event_id = f.event_id and l.position <= $2', 'log_' || p_topic_id)
        using p_topic_id, p_upto;
    end if;
end
$$;

-- Evaluates the inline rules of a topic on an event that is being published and fires those that are true, in the publisher's transaction.
-- Publishers call it in the statement that inserts the event, and only where headrace_internal.topic says that the topic has inline rules.
-- Always true. An evaluation that fails is undone alone (it only reads), and its event is evaluated after the log: the publisher goes on.
-- Runs as the owner, since a publisher may publish but not fire. Its cost lets the planner evaluate every other condition before it. The
-- rules of the topic are in a function of their own, which headrace_internal.write_inline has created. Locks nothing.
-- Calls: is_program_error, fire, trace_headers.
create or replace function headrace_internal.react_inline(
    p_topic_id   integer,
    p_event_id   uuid,
    p_type       text,
    p_key        text,
    p_payload    jsonb,
    p_headers    jsonb,
    p_emitted_at timestamptz,
    p_producer   text
) returns boolean
language plpgsql volatile security definer
cost 1000000
set search_path = pg_catalog, pg_temp
as $$
declare
    v_versions bigint[];
begin
    begin
        execute format('select headrace_internal.%I($1, $2, $3, $4, $5, $6, $7)', 'match_inline_' || p_topic_id) into v_versions
        using p_event_id, p_type, p_key, p_payload, p_headers, p_emitted_at, p_producer;
    exception
        when others then
            if not headrace_internal.is_program_error(sqlstate) then
                raise;
            end if;
            insert into headrace_internal.inline_failure (topic_id, event_id, error) values (p_topic_id, p_event_id, sqlerrm);
    end;
    if v_versions is not null then
        perform headrace_internal.fire(p_topic_id, array(
            select row(v.version_id, null, p_event_id, p_type, p_key, p_payload, p_emitted_at, p_producer,
                headrace_internal.trace_headers(p_headers))::headrace_internal.rule_hit
            from unnest(v_versions) with ordinality v (version_id, n) order by v.n));
    end if;
    return true;
end
$$;

-- Evaluates the inline rules of events whose inline evaluation failed, once the rules' cursor has reached them. Returns the number of
-- firings. An error here is recorded with the events, which are then tried again with the next batch: it does not stop the other rules
-- of the topic. Indexes: inline_failure_topic, log_event_id.
-- Calls: match_events, fire, is_program_error.
create or replace function headrace_internal.react_late(p_topic_id integer, p_upto bigint) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_events  uuid[];
    v_first   bigint;
    v_last    bigint;
    v_hits    headrace_internal.rule_hit[];
    v_firings integer := 0;
begin
    if not exists (select from headrace_internal.inline_failure f where f.topic_id = p_topic_id) then
        return 0;
    end if;
    -- Queries the topic's own branch: a query on the whole log plans and locks every topic.
    execute format('select array_agg(l.event_id), min(l.position), max(l.position) '
        'from (select distinct f.event_id from headrace_internal.inline_failure f where f.topic_id = $1) f '
        'join headrace_internal.%I l on l.event_id = f.event_id and l.position <= $2', 'log_' || p_topic_id)
    into v_events, v_first, v_last using p_topic_id, p_upto;
    if v_events is null then
        return 0;
    end if;
    for v_hits in
        select array(select h from unnest(m.hits) h where h.event_id = any (v_events))
        from headrace_internal.match_events(p_topic_id, 'late', v_first - 1, v_last) m (hits)
    loop
        v_firings := v_firings + headrace_internal.fire(p_topic_id, v_hits);
    end loop;
    delete from headrace_internal.inline_failure f where f.topic_id = p_topic_id and f.event_id = any (v_events);
    return v_firings;
exception
    when others then
        if headrace_internal.is_program_error(sqlstate) then
            update headrace_internal.inline_failure f set error = sqlerrm where f.topic_id = p_topic_id;
            return 0;
        end if;
        raise;
end
$$;

-- Evaluates the rules of a topic on the events after p_after up to p_upto, and moves the cursor there. Returns the number of firings. The
-- caller has locked the cursor of the rules, where it stands at p_after, and found no rule that waits for the compiler.
-- Calls: match_events, fire, react_late, place_firings, advance.
create or replace function headrace_internal.react_to_events(p_topic_id integer, p_consumer_id bigint, p_after bigint, p_upto bigint)
returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_hits    headrace_internal.rule_hit[];
    v_firings integer := 0;
begin
    for v_hits in select m.hits from headrace_internal.match_events(p_topic_id, 'after', p_after, p_upto) m (hits) loop
        v_firings := v_firings + headrace_internal.fire(p_topic_id, v_hits);
    end loop;
    v_firings := v_firings + headrace_internal.react_late(p_topic_id, p_upto);
    perform headrace_internal.place_firings(p_topic_id, p_upto);
    perform headrace.advance(p_consumer_id, -1, p_upto);
    return v_firings;
end
$$;

-- Evaluates the rules of a topic on its next events: one batch, one transaction with firings, actions and cursor.
-- Returns the number of events and firings; no row when nothing is due, when another session holds the cursor, when the rules of
-- the topic are paused, when it runs on another engine, or while a rule waits for the compiler: an event published after a rule was written does not pass before the
-- rule is active.
-- Locks: the cursor row, no key update, skip locked. Index: rule_version_pending; see also batch_end and match_events.
-- Calls: batch_end, react_to_events.
create or replace function headrace_internal.react(p_topic_id integer, p_max integer default 1000)
returns table (events integer, firings integer, "position" bigint, has_more boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_cursor record;
    v_max    integer;
    v_upto   bigint;
begin
    select u.consumer_id, u.position, u.single_to into v_cursor
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.topic_id = p_topic_id and c.consumer = 'headrace.rules'
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
    for no key update of u skip locked;
    -- Checked while the cursor is locked: moving a topic to another engine locks it as well.
    if not found or (select t.engine from headrace_internal.topic t where t.topic_id = p_topic_id) <> 'database' then
        return;
    end if;
    v_max := case when v_cursor.single_to > v_cursor.position then 1 else p_max end;
    select b.upto, b.events, b.events = v_max into v_upto, events, has_more
    from headrace_internal.batch_end(v_cursor.consumer_id, p_topic_id, -1, v_cursor.position, v_max) b;
    -- Checked after the events: a rule written later than this check is later than all of them.
    if events = 0 or exists (select from headrace_internal.rule_version v where v.topic_id = p_topic_id and v.status = 'pending') then
        return;
    end if;
    firings := headrace_internal.react_to_events(p_topic_id, v_cursor.consumer_id, v_cursor.position, v_upto);
    position := v_upto;
    return next;
end
$$;

-- Evaluates the rules of a topic on the events that this transaction has just appended, those after p_after up to p_upto. Returns the number of
-- firings; null, and nothing has happened, unless they are what the rules handle next, as headrace_internal.react decides it: then they are
-- left to it. The caller holds the topic's row, so the engine cannot change, and has read it.
-- Locks: the cursor row, no key update, skip locked. Index: rule_version_pending; see also match_events.
-- Calls: react_to_events.
create or replace function headrace_internal.react_at(p_topic_id integer, p_after bigint, p_upto bigint) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_consumer_id bigint;
begin
    select u.consumer_id into v_consumer_id
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.topic_id = p_topic_id and c.consumer = 'headrace.rules'
        and u.position = p_after and u.state = 'running' and u.retry_at is null and (u.single_to > u.position) is not true
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
        -- The events were read before this: a rule written later is later than all of them.
        and (select v.version_id from headrace_internal.rule_version v
            where v.topic_id = p_topic_id and v.status = 'pending' limit 1) is null
    for no key update of u skip locked;
    return case when found then headrace_internal.react_to_events(p_topic_id, v_consumer_id, p_after, p_upto) end;
end
$$;
