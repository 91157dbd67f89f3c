-- Claims due actions of the given names that are not paused and were never claimed before: high priorities first, then ordinary ones, then low ones.
-- The branches are lazy: later ones are not read while the first ones give enough rows.
-- Ordinary actions come in two parts. First those after a message id, by age, so that a busy worker does not walk again over what
-- it has just claimed. Then those up to it, by due time, so that actions with a later due time are never read.
-- Rows are selected by ctid and locked in the same statement.
-- Locks: the rows, skip locked. Indexes: q_<queue>_priority, q_<queue>_pkey, q_<queue>_vt_idx (pgmq's own). Runs on a connection
-- that avoids sorts and sequential scans: a sort would lock the whole queue and so hide it from other workers.
-- The statement is planned once per session for the default namespace, which most databases have alone: planning takes longer than the
-- claim of some twenty actions. Other queues have their statement built from the same text, and planned, at each call. In both,
-- $1 to $4 are the parameters of the function. The clock is a subselect, so that it is read once and not for every row.
do $do$
declare
    v_claim text := $claim$
        update pgmq.%1$I c set read_ct = c.read_ct + 1, vt = (select headrace.clock()) + make_interval(secs => $3)
        where c.ctid = any (array(
            select place from (
                select q.ctid as place from pgmq.%1$I q
                where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' > '0'
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.message -> 'priority' desc, q.msg_id
                for update skip locked) high
            union all
            select place from (
                select q.ctid as place from pgmq.%1$I q
                where q.msg_id > $4
                    and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.msg_id
                for update skip locked) younger
            union all
            select place from (
                select q.ctid as place from pgmq.%1$I q
                where q.msg_id <= $4
                    and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.vt
                for update skip locked) older
            union all
            select place from (
                select q.ctid as place from pgmq.%1$I q
                where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' < '0'
                    and q.read_ct = 0 and q.vt <= (select headrace.clock()) and q.message ->> 'action' = any ($1)
                order by q.message -> 'priority' desc, q.msg_id
                for update skip locked) low
            limit $2))
        returning c.msg_id, c.read_ct, c.message::text$claim$;
begin
    execute replace(replace($function$
create or replace function headrace.claim_actions(
    p_actions   text[],
    p_max       integer,
    p_lease_s   double precision,
    p_after     bigint default 9223372036854775807,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (msg_id bigint, read_ct integer, message text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
-- A sort that cannot be avoided has such a high cost that the statement would be JIT-compiled.
set jit = off
as $body$
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
        return query <claim from the default queue>;
    else
        return query execute format($sql$<claim from another queue>$sql$, 'q_' || v_queue) using p_actions, p_max, p_lease_s, p_after;
    end if;
end
$body$
    $function$, '<claim from the default queue>', replace(v_claim, '%1$I', 'q_hr_default')), '<claim from another queue>', v_claim);
end
$do$;
