-- Returns the name of a namespace's action queue in pgmq: hr_<number of the namespace>. The catalog shows table names to every role, so they
-- must not contain the name of a namespace; 'default' is no secret.
create or replace function headrace_internal.queue_for(p_namespace text, p_namespace_id integer) returns text
language sql immutable
return case when p_namespace = 'default' then 'hr_default' else 'hr_' || p_namespace_id end;

-- Returns the name of a namespace's action queue in pgmq. Raises HR131 if there is no such namespace. Index: namespace_pkey.
-- Calls: queue_for, namespace_exists.
create or replace function headrace_internal.queue_of(p_namespace text) returns text
language plpgsql stable
as $$
declare
    v_queue text;
begin
    select headrace_internal.queue_for(n.namespace, n.namespace_id) into v_queue
    from headrace_internal.namespace n where n.namespace = p_namespace;
    if v_queue is null then
        perform headrace_internal.namespace_exists(p_namespace);
    end if;
    return v_queue;
end
$$;

-- Returns the name of the queue in pgmq that holds the dead letters of an action queue: hrd_… for hr_…. The prefixes differ, so that no
-- namespace's dead letters are another one's actions.
create or replace function headrace_internal.dead_letter_queue(p_queue text) returns text
language sql immutable
return 'hrd_' || substr(p_queue, 4);

-- What dead letters of actions have in common: name of the action, reason, error group. An index of every dead-letter queue holds it,
-- so a change of its result needs the index built again.
-- Calls: error_group.
create or replace function headrace_internal.dead_letter_group(p_message jsonb) returns text[]
language sql immutable parallel safe
as $$
    select array[
        pg_catalog.left(coalesce(p_message -> 'action' ->> 'action', ''), 200),
        pg_catalog.left(coalesce(p_message ->> 'reason', ''), 200),
        coalesce(headrace_internal.error_group(p_message ->> 'error'), '')]
$$;

-- Creates a namespace's action queue and its dead-letter queue, unless they exist.
-- pgmq's own functions work on the tables as usual; we add three indexes: priority, only for actions with a priority; key_order,
-- for handlers that ask for order by key; retried, for actions claimed at least once, in the order in which they fall due.
-- Dead letters get two: group, to count and page them by what they have in common; action, to find those of an action by its id.
-- Calls: queue_of, dead_letter_queue, dead_letter_group.
create or replace function headrace_internal.create_queue(p_namespace text) returns void
language plpgsql volatile
as $$
declare
    v_queue   text := headrace_internal.queue_of(p_namespace);
    v_letters text := headrace_internal.dead_letter_queue(v_queue);
begin
    perform pgmq.create(v_queue);
    perform pgmq.create(v_letters);
    execute format('create index if not exists %I on pgmq.%I ((message -> ''priority'') desc, msg_id) '
        'where jsonb_typeof(message -> ''priority'') = ''number'' and message -> ''priority'' <> ''0''',
        'q_' || v_queue || '_priority', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I ((message ->> ''action''), (message ->> ''key''), msg_id) '
        'where message ->> ''key'' is not null',
        'q_' || v_queue || '_key_order', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I (vt) where read_ct > 0',
        'q_' || v_queue || '_retried', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I (headrace_internal.dead_letter_group(message), msg_id)',
        'q_' || v_letters || '_group', 'q_' || v_letters);
    execute format('create index if not exists %I on pgmq.%I ((message -> ''action'' ->> ''id''))',
        'q_' || v_letters || '_action', 'q_' || v_letters);
    execute format('create index if not exists %I on pgmq.%I ((message -> ''action'' ->> ''id''))',
        'a_' || v_letters || '_action', 'a_' || v_letters);
    -- Rows live for moments here: clean up early, or the claim walks over the dead ones.
    execute format('alter table pgmq.%I set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000)',
        'q_' || v_queue);
    insert into headrace_internal.queue (namespace) values (p_namespace) on conflict on constraint queue_pkey do nothing;
end
$$;

-- Creates and drops the queues of a namespace together with it.
-- Calls: create_queue, queue_for, dead_letter_queue.
create or replace function headrace_internal.sync_namespace_queues() returns trigger
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
begin
    if tg_op = 'INSERT' then
        perform headrace_internal.create_queue(new.namespace);
    else
        v_queue := headrace_internal.queue_for(old.namespace, old.namespace_id);
        perform pgmq.drop_queue(v_queue);
        perform pgmq.drop_queue(headrace_internal.dead_letter_queue(v_queue));
    end if;
    return null;
end
$$;

-- Returns the name of a namespace's action queue in pgmq, for the owner's own queries. Takes any level.
-- Calls: queue_of, current_namespace.
create or replace function headrace.queue_name(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize(p_caller, 'any', p_namespace);
    select headrace_internal.queue_of(headrace.current_namespace(p_namespace))
$$;

-- Returns the tables of a namespace's action queue: queue and dead letters, and pgmq's archives of both; none without a queue.
-- Calls: queue_of, dead_letter_queue.
create or replace function headrace_internal.queue_tables(p_namespace text) returns setof regclass
language sql stable
as $$
    select t.queue_table
    from pg_catalog.unnest(array['q_', 'a_']) p (prefix)
    cross join pg_catalog.unnest(array[headrace_internal.queue_of(p_namespace), headrace_internal.dead_letter_queue(headrace_internal.queue_of(p_namespace))]) n (queue)
    cross join lateral pg_catalog.to_regclass(pg_catalog.format('pgmq.%I', p.prefix || n.queue)) t (queue_table)
    where t.queue_table is not null
$$;

-- Notifies idle nodes at commit, if there are any; without a payload, since every role may listen. Busy nodes find the action by
-- themselves, and idle ones where transactions may be prepared, see headrace_internal.may_notify. Index: queue_pkey.
-- Calls: may_notify.
create or replace function headrace.wake_queue(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
begin
    perform pg_notify('headrace_action', '')
    from headrace_internal.queue q where q.namespace = v_namespace and q.asleep and headrace_internal.may_notify();
end
$$;

-- Records whether the idle nodes of a namespace wait for a notification (p_asleep). Writes only when that changes.
-- Locks: the queue's row, skip locked: another node is writing the same.
create or replace function headrace.set_queue_asleep(
    p_asleep boolean, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
begin
    update headrace_internal.queue q set asleep = p_asleep
    where q.namespace = (
        select r.namespace from headrace_internal.queue r
        where r.namespace = v_namespace and r.asleep <> p_asleep
        for no key update skip locked);
end
$$;

-- True if no action of a namespace waits, is delayed or is being handled: then nothing can become due without a notification.
-- Locks nothing. Index: the primary key of the queue.
-- Calls: queue_of.
create or replace function headrace.queue_is_empty(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_msg_id    bigint;
begin
    execute format('select q.msg_id from pgmq.%I q order by q.msg_id limit 1', 'q_' || headrace_internal.queue_of(v_namespace)) into v_msg_id;
    return v_msg_id is null;
end
$$;

-- A namespace has its queues from its first moment, also the one that is created with the tables.
create or replace trigger namespace_queues after insert or delete on headrace_internal.namespace
for each row execute function headrace_internal.sync_namespace_queues();

select headrace_internal.create_queue(n.namespace) from headrace_internal.namespace n
where not exists (select from headrace_internal.queue q where q.namespace = n.namespace);
