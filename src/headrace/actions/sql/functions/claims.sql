-- Claims due actions of the given names that are not paused and were never claimed before: high priorities first, then ordinary ones, then low ones.
-- The branches are lazy: later ones are not read while the first ones give enough rows.
-- Ordinary actions come in two parts. First those after a message id, by age, so that a busy worker does not walk again over what
-- it has just claimed. Then those up to it, by due time, so that actions with a later due time are never read.
-- Rows are selected by ctid and locked in the same statement.
-- Locks: the rows, skip locked. Indexes: q_<queue>_priority, q_<queue>_pkey, q_<queue>_vt_idx (pgmq's own). Runs on a connection
-- that avoids sorts and sequential scans: a sort would lock the whole queue and so hide it from other workers.
-- The statement is planned once per session for the default namespace, which most databases have alone: planning takes longer than the
-- claim of some twenty actions. Other queues have the same statement built and planned at each call; a test compares the two. In
-- both, $1 to $4 are the parameters of the function. The clock is a subselect, so that it is read once and not for every row.
-- Calls: unpaused_actions, queue_of.
create or replace function headrace.claim_actions(
    p_actions   text[],
    p_max       integer,
    p_lease_s   double precision,
    p_after     bigint default 9223372036854775807,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (msg_id bigint, read_ct integer, message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
-- A sort that cannot be avoided has such a high cost that the statement would be JIT-compiled.
set jit = off
as $$
declare
    v_queue text;
begin
    p_namespace := headrace_internal.authorize(p_caller, 'work', p_namespace);
    p_actions := headrace_internal.unpaused_actions(p_namespace, p_actions);
    if p_actions = '{}' then
        return;
    end if;
    v_queue := headrace_internal.queue_of(p_namespace);
    if v_queue = 'hr_default' then
        return query
        update pgmq.q_hr_default c set read_ct = c.read_ct + 1, vt = (select headrace.clock()) + make_interval(secs => $3)
        where c.ctid = any (array(
            select row_id from (
                select q.ctid as row_id from pgmq.q_hr_default q
                where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' > '0'
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.message -> 'priority' desc, q.msg_id
                for update skip locked) high
            union all
            select row_id from (
                select q.ctid as row_id from pgmq.q_hr_default q
                where q.msg_id > $4
                    and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.msg_id
                for update skip locked) younger
            union all
            select row_id from (
                select q.ctid as row_id from pgmq.q_hr_default q
                where q.msg_id <= $4
                    and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.vt
                for update skip locked) older
            union all
            select row_id from (
                select q.ctid as row_id from pgmq.q_hr_default q
                where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' < '0'
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.message -> 'priority' desc, q.msg_id
                for update skip locked) low
            limit $2))
        returning c.msg_id, c.read_ct, c.message::text;
    else
        return query execute format($sql$
        update pgmq.%1$I c set read_ct = c.read_ct + 1, vt = (select headrace.clock()) + make_interval(secs => $3)
        where c.ctid = any (array(
            select row_id from (
                select q.ctid as row_id from pgmq.%1$I q
                where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' > '0'
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.message -> 'priority' desc, q.msg_id
                for update skip locked) high
            union all
            select row_id from (
                select q.ctid as row_id from pgmq.%1$I q
                where q.msg_id > $4
                    and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.msg_id
                for update skip locked) younger
            union all
            select row_id from (
                select q.ctid as row_id from pgmq.%1$I q
                where q.msg_id <= $4
                    and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.vt
                for update skip locked) older
            union all
            select row_id from (
                select q.ctid as row_id from pgmq.%1$I q
                where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' < '0'
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.message -> 'priority' desc, q.msg_id
                for update skip locked) low
            limit $2))
        returning c.msg_id, c.read_ct, c.message::text$sql$, 'q_' || v_queue) using p_actions, p_max, p_lease_s, p_after;
    end if;
end
$$;

-- Claims actions of one name, never claimed before, whose key has no earlier action in flight, delayed or waiting for a retry.
-- Several actions of a key may be claimed together: the worker handles them in order. One claim at a time, until its
-- transaction ends: two concurrent ones would not see each other's rows and could claim a key's second action before its first.
-- Reads 2000 due actions, by due time: it never reads actions with a later due time, and never walks the whole tail of a key
-- that waits. An earlier action of the key that is not among them blocks the key. Only if all of them are blocked, and more are due,
-- it reads ten times as many, and so on: otherwise nothing would be claimed until the blocking actions are due.
-- `offset 0` makes the planner check them one by one, in order, until there are enough.
-- Locks: the lock of the action's name; the rows. Indexes: q_<queue>_vt_idx (pgmq's own), q_<queue>_key_order.
-- Calls: queue_of, unpaused_actions, take_lock.
create or replace function headrace.claim_ordered_actions(
    p_action    text,
    p_max       integer,
    p_lease_s   double precision,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (msg_id bigint, read_ct integer, message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
-- A sort that cannot be avoided has such a high cost that the statement would be JIT-compiled.
set jit = off
-- The row ids of many due actions fit into a hash table.
set work_mem = '64MB'
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue     text := 'q_' || headrace_internal.queue_of(v_namespace);
    v_read      integer := 2000;
    v_claimed   integer;
    v_has_more  boolean;
begin
    if headrace_internal.unpaused_actions(v_namespace, array[p_action]) = '{}' then
        return;
    end if;
    perform headrace_internal.take_lock(format('actions %s %s', v_namespace, p_action));
    loop
        return query execute format($sql$
            with due as materialized (
                select q.ctid as row_id, q.msg_id, q.message ->> 'key' as key from pgmq.%1$I q
                where q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = $1
                order by q.vt
                limit $4),
            claimed as (
                update pgmq.%1$I c set read_ct = c.read_ct + 1, vt = headrace.clock() + make_interval(secs => $3)
                where c.ctid = any (array(
                    select f.row_id from (select d.* from due d order by d.msg_id offset 0) f
                    where not exists (
                        select from pgmq.%1$I e
                        where e.message ->> 'action' = $1 and e.message ->> 'key' = f.key
                            and e.msg_id < f.msg_id and e.ctid not in (select d.row_id from due d)
                        offset 0)
                    order by f.msg_id
                    limit $2))
                returning c.msg_id, c.read_ct, c.message)
            select d.msg_id, d.read_ct, d.message::text from claimed d
            $sql$, v_queue)
        using p_action, p_max, p_lease_s, v_read;
        get diagnostics v_claimed = row_count;
        exit when v_claimed > 0 or v_read >= 20000000;
        execute format('select exists (select from pgmq.%I q where q.read_ct = 0 and q.vt <= headrace.clock() '
            'and q.message ->> ''action'' = $1 order by q.vt offset $2)', v_queue) into v_has_more using p_action, v_read;
        exit when not v_has_more;
        v_read := v_read * 10;
    end loop;
end
$$;

-- Claims one action that was claimed before and is due again, the one that has waited longest. It is handled alone, so that an
-- action that kills its process does not use up the attempts of others. Ordered actions: only the first one of its key.
-- Locks: the row, skip locked. Indexes: q_<queue>_retried, q_<queue>_key_order.
-- Calls: unpaused_actions, queue_of.
create or replace function headrace.claim_retried_action(
    p_actions   text[],
    p_ordered   boolean,
    p_lease_s   double precision,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (msg_id bigint, read_ct integer, message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
-- A sort that cannot be avoided has such a high cost that the statement would be JIT-compiled.
set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
begin
    p_actions := headrace_internal.unpaused_actions(v_namespace, p_actions);
    if p_actions = '{}' then
        return;
    end if;
    return query execute format($sql$
        update pgmq.%1$I c set read_ct = least(c.read_ct, 2147483646) + 1, vt = headrace.clock() + make_interval(secs => $3)
        where c.ctid = any (array(
            select q.ctid from pgmq.%1$I q
            where q.read_ct > 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any ($1)
                and (not $2 or not exists (
                    select from pgmq.%1$I e
                    where e.message ->> 'action' = q.message ->> 'action' and e.message ->> 'key' = q.message ->> 'key'
                        and e.msg_id < q.msg_id))
            order by q.vt
            limit 1
            for update of q skip locked))
        returning c.msg_id, c.read_ct, c.message::text
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using p_actions, p_ordered, p_lease_s;
end
$$;

-- Extends leases while their handlers run; returns how many are still held. Skips rows that are being acked.
-- Locks: the rows, skip locked. Index: q_<queue>_pkey.
-- Calls: queue_of.
create or replace function headrace.extend_actions(
    p_msg_ids bigint[], p_attempts integer[], p_lease_s double precision, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_held      integer;
begin
    execute format($sql$
        update pgmq.%1$I q set vt = headrace.clock() + make_interval(secs => $3)
        where q.ctid = any (array(
            select q.ctid from pgmq.%1$I q
            join unnest($1, $2) h (msg_id, attempt) on q.msg_id = h.msg_id and q.read_ct = h.attempt
            for update of q skip locked))
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using p_msg_ids, p_attempts, p_lease_s;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;

-- Returns actions to the queue before their lease ends, due at once; returns how many were still held. With p_uncount the attempt
-- does not count, because the handler did not start. Locks: the rows. Index: q_<queue>_pkey.
-- Calls: queue_of.
create or replace function headrace.release_actions(
    p_msg_ids bigint[], p_attempts integer[], p_uncount boolean default false, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_held      integer;
begin
    execute format($sql$
        update pgmq.%I q set vt = headrace.clock(), read_ct = q.read_ct - case when $3 then 1 else 0 end
        from unnest($1, $2) h (msg_id, attempt)
        where q.msg_id = h.msg_id and q.read_ct = h.attempt
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using p_msg_ids, p_attempts, p_uncount;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;
