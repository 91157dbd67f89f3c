-- Those of some actions that are not paused; none if the queue is. Index: pause_pkey.
create or replace function headrace_internal.unpaused_actions(p_namespace text, p_actions text[]) returns text[]
language plpgsql stable
as $$
begin
    -- Most of the time nothing is paused.
    if not exists (select from headrace_internal.pause p where p.namespace = p_namespace and p.kind in ('action', 'queue')) then
        return p_actions;
    end if;
    return array(
        select a.action from unnest(p_actions) a (action)
        where not exists (
            select from headrace_internal.pause p
            where p.namespace = p_namespace and (p.kind = 'queue' or p.kind = 'action' and p.name = a.action)));
end
$$;

-- Is an action paused, by its name or with the whole queue? Index: pause_pkey.
-- Calls: unpaused_actions, current_namespace.
create or replace function headrace.is_paused(
    p_action text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize(p_caller, 'any', p_namespace);
    select cardinality(headrace_internal.unpaused_actions(headrace.current_namespace(p_namespace), array[p_action])) = 0
$$;

-- Returns by how many seconds the due time of a held action is postponed: 50 years. An action is held while its rule or its name is paused;
-- headrace.resume subtracts them again, so that it keeps its order. An action due in more than 25 years counts as held.
create or replace function headrace_internal.hold_s() returns integer
language sql immutable parallel safe
as $$
    select 1577880000
$$;

-- Holds due actions whose name is paused, so that claims do not walk over them; headrace.resume makes them due again. Examines the
-- 10000 that have been due for longest. By ctid: a row claimed meanwhile has a new ctid and is skipped. Locks: the pauses, for share: a resume waits for us, and then
-- finds what we hold. Indexes: pause_pkey, q_<queue>_vt_idx.
-- Calls: hold_s, queue_of.
create or replace function headrace_internal.hold_paused_actions(p_namespace text) returns void
language plpgsql volatile
-- Otherwise the planner may compare every row of the queue with every ctid.
set enable_seqscan = off set jit = off
as $$
declare
    v_paused text[];
begin
    select array_agg(p.name) into v_paused
    from (
        select p.name from headrace_internal.pause p
        where p.namespace = p_namespace and p.kind = 'action' order by p.name for share) p;
    if v_paused is null then
        return;
    end if;
    execute format($sql$
        update pgmq.%1$I c set vt = c.vt + make_interval(secs => headrace_internal.hold_s())
        where c.ctid = any (array(
            select d.row_id from (
                select q.ctid as row_id, q.message ->> 'action' as action from pgmq.%1$I q
                where q.vt <= headrace.clock()
                order by q.vt limit 10000) d
            where d.action = any ($1)))
        $sql$, 'q_' || headrace_internal.queue_of(p_namespace)) using v_paused;
end
$$;

-- Makes actions due again that were held because their rule or their name was paused; returns how many. Those that another pause
-- holds stay. Locks: the rows. Index: q_<queue>_vt_idx.
-- Calls: hold_s, queue_of.
create or replace function headrace_internal.release_held_actions(p_namespace text, p_rule text, p_action text) returns integer
language plpgsql volatile
as $$
declare
    v_count integer;
begin
    execute format($sql$
        update pgmq.%I q set vt = q.vt - make_interval(secs => headrace_internal.hold_s())
        where q.vt > headrace.clock() + interval '25 years'
            and ($2 is null or q.message -> 'cause' ->> 'kind' = 'rule' and q.message -> 'cause' ->> 'rule' = $2)
            and ($3 is null or q.message ->> 'action' = $3)
            and not exists (
                select from headrace_internal.pause p
                where p.namespace = $1 and (p.kind = 'action' and p.name = q.message ->> 'action'
                    or p.kind = 'rule' and q.message -> 'cause' ->> 'kind' = 'rule' and p.name = q.message -> 'cause' ->> 'rule'))
        $sql$, 'q_' || headrace_internal.queue_of(p_namespace)) using p_namespace, p_rule, p_action;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Returns the level it takes to pause and resume something of a kind; raises HR300 for an unknown kind.
create or replace function headrace_internal.pause_level(p_kind text, p_name text) returns text
language plpgsql immutable
as $$
begin
    if p_kind is null or p_kind not in ('consumer', 'rule', 'correlator', 'relay', 'schedule', 'action', 'queue') then
        raise exception '% cannot be paused', coalesce(quote_literal(p_kind), 'null')
            using errcode = 'HR300', hint = 'Choose consumer, rule, correlator, relay, schedule, action or queue.';
    end if;
    if (p_kind = 'queue') <> (coalesce(p_name, '') = '') then
        raise exception 'pausing or resuming a % takes %', p_kind, case p_kind when 'queue' then 'no name' else 'its name' end
            using errcode = 'HR300', hint = 'A namespace has one queue. A consumer is named topic/consumer.';
    end if;
    -- The consumers of rules belong to these.
    return case when p_kind in ('action', 'queue') then 'work'
        when p_kind = 'relay' or (p_kind = 'consumer' and p_name not like '%/headrace.%') then 'consume' else 'admin' end;
end
$$;

-- What a pause is about, by kind and name: the consumer that a pause of a consumer, correlator or relay stops, or the rule. Raises HR102,
-- HR120, HR122, HR123 or HR100 if there is none. Anything an action's name is known by will do: a node, a rule, the registry, the queue.
-- Calls: consumer_id, queue_of.
create or replace function headrace_internal.pause_subject(
    p_kind text, p_name text, p_namespace text, out consumer_id bigint, out rule_id bigint
)
language plpgsql stable
as $$
declare
    v_is_known boolean;
    v_id       bigint;
    v_topic_id integer;
begin
    if p_kind = 'consumer' then
        if position('/' in p_name) = 0 then
            raise exception '"%" does not name a consumer', p_name
                using errcode = 'HR300', hint = 'Write topic/consumer, for example orders/billing.';
        end if;
        consumer_id := headrace_internal.consumer_id(
            substring(p_name from '^(.*)/[^/]*$'), substring(p_name from '[^/]*$'), p_namespace);
    elsif p_kind in ('rule', 'correlator', 'relay') then
        execute format('select d.%I, d.topic_id from headrace_internal.%I d where d.namespace = $1 and d.%2$I = $2', p_kind || '_id', p_kind)
        into v_id, v_topic_id using p_namespace, p_name;
        if v_id is null then
            raise exception 'there is no % "%" in namespace "%"', p_kind, p_name, p_namespace
                using errcode = case p_kind when 'rule' then 'HR120' when 'correlator' then 'HR122' else 'HR123' end,
                    hint = format('See: select %1$s from headrace.%1$s.', p_kind);
        end if;
        rule_id := case p_kind when 'rule' then v_id end;
        select c.consumer_id into consumer_id from headrace_internal.consumer c
        where c.topic_id = v_topic_id
            and c.consumer = case p_kind when 'correlator' then 'headrace.correlator.' when 'relay' then 'relay.' end || p_name;
        if p_kind = 'correlator' and consumer_id is null then
            raise exception 'correlator "%" is not active', p_name
                using errcode = 'HR200', hint = 'It reads no events. Activate it: headrace correlator alter NAME --active.';
        end if;
    elsif p_kind = 'action' then
        execute format($sql$
            select exists (select from headrace_internal.action a where a.namespace = $1 and a.action = $2)
                or exists (select from headrace_internal.node n where n.namespace = $1 and $2 = any (n.handlers))
                or exists (select from headrace_internal.rule r where r.namespace = $1 and r.action = $2)
                or exists (
                    select from headrace_internal.correlator c cross join lateral jsonb_each(c.outputs) o
                    where c.namespace = $1 and o.value ->> 'action' = $2)
                or exists (select from pgmq.%I q where q.message ->> 'action' = $2)
            $sql$, 'q_' || headrace_internal.queue_of(p_namespace)) into v_is_known using p_namespace, p_name;
        if not v_is_known then
            raise exception 'namespace "%" knows no action "%"', p_namespace, p_name
                using errcode = 'HR100', hint = 'See: headrace action list. To pause it before it is used, register it: headrace action create.';
        end if;
    end if;
end
$$;

-- Pauses a consumer (topic/consumer), rule, correlator, relay, schedule, action (all handlers of that name) or the queue of a namespace,
-- until headrace.resume. False: it was paused already. What runs now finishes; nodes start nothing new within a second.
-- Nothing is lost: cursors stay where they are, and actions stay in the queue. A paused rule is still evaluated and recorded, and its
-- actions are held in the queue. A paused schedule skips its ticks. Locks: nothing that others wait for.
-- Calls: pause_level, schedule_id, pause_subject.
create or replace function headrace.pause(
    p_kind text, p_name text default '', p_reason text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, headrace_internal.pause_level(p_kind, p_name), p_namespace,
        case p_kind when 'consumer' then substring(p_name from '^(.*)/[^/]*$') end);
    v_subject   record;
begin
    if p_kind = 'schedule' then
        update headrace_internal.schedule s set active = false
        where s.schedule_id = headrace.schedule_id(p_name, v_namespace) and s.active;
        return found;
    end if;
    select s.consumer_id, s.rule_id into v_subject from headrace_internal.pause_subject(p_kind, p_name, v_namespace) s;
    insert into headrace_internal.pause (namespace, kind, name, consumer_id, rule_id, reason, paused_by)
    values (v_namespace, p_kind, coalesce(p_name, ''), v_subject.consumer_id, v_subject.rule_id, p_reason, p_caller)
    -- Look for the consumer, too: a relay is one, and may be paused under either name.
    on conflict do nothing;
    return found;
end
$$;

-- Resumes what headrace.pause has paused, and lets stopped and waiting partitions of a consumer try again at once. Returns how many
-- go on: partitions of a consumer, held actions of a rule or action, else 1; 0 if nothing was paused or stopped.
-- Locks: the pause's row, so it waits for rules that send held actions at the moment; the held actions; a consumer's failed cursors.
-- Calls: pause_level, schedule_id, pause_subject, notify, release_held_actions, wake_queue.
create or replace function headrace.resume(
    p_kind text, p_name text default '', p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, headrace_internal.pause_level(p_kind, p_name), p_namespace,
        case p_kind when 'consumer' then substring(p_name from '^(.*)/[^/]*$') end);
    v_consumer_id bigint;
    v_was_paused  boolean;
    v_count       integer := 0;
begin
    if p_kind = 'schedule' then
        update headrace_internal.schedule s set active = true
        where s.schedule_id = headrace.schedule_id(p_name, v_namespace) and not s.active;
        return found::integer;
    end if;
    -- An unknown name is an error, not an idle resume.
    select s.consumer_id into v_consumer_id from headrace_internal.pause_subject(p_kind, p_name, v_namespace) s;
    delete from headrace_internal.pause p
    where (p.namespace = v_namespace and p.kind = p_kind and p.name = coalesce(p_name, '')) or p.consumer_id = v_consumer_id;
    v_was_paused := found;
    if v_consumer_id is not null then
        -- A disabled relay is checked and tried again.
        update headrace_internal.relay r set status = 'pending', error = null
        from headrace_internal.consumer c
        where c.consumer_id = v_consumer_id and r.topic_id = c.topic_id and c.consumer = 'relay.' || r.relay and r.status = 'disabled';
        select count(*) into v_count from headrace_internal.cursor c
        where c.consumer_id = v_consumer_id and (v_was_paused or c.state = 'stopped' or c.retry_at is not null);
        update headrace_internal.cursor c set state = 'running', attempts = 0, retry_at = null, error = null, traceback = null
        where c.consumer_id = v_consumer_id and (c.state = 'stopped' or c.retry_at is not null);
        perform headrace_internal.notify('headrace_log', c.topic_id::text), headrace_internal.notify('headrace_relay', '') from headrace_internal.consumer c where c.consumer_id = v_consumer_id;
        return v_count;
    end if;
    if v_was_paused and p_kind in ('rule', 'action') then
        v_count := headrace_internal.release_held_actions(v_namespace,
            case p_kind when 'rule' then p_name end, case p_kind when 'action' then p_name end);
    end if;
    if v_was_paused then
        perform headrace.wake_queue(v_namespace);
    end if;
    return greatest(v_count, v_was_paused::integer);
end
$$;
