-- Deletes handled actions from the queue and records them as done, in the handlers' own transaction.
-- Each must still have the attempt number it was claimed with. Otherwise its lease has ended and another node may hold it: HR206
-- is raised, and the handlers' effects are rolled back with the transaction. Locks: the rows. Index: q_<queue>_pkey.
-- Planned once per session for the default namespace, as in headrace.claim_actions. $1 to $5 are the parameters of the function. The
-- settings keep a plan that was made for an empty queue right for a full one.
do $do$
declare
    v_ack text := $ack$
        with gone as (
            delete from pgmq.%1$I q
            using unnest($1, $2, $3) h (msg_id, attempt, duration_s)
            where q.msg_id = h.msg_id and q.read_ct = h.attempt
            returning (q.message ->> 'id')::uuid as action_id, q.message ->> 'action' as action,
                left(q.message -> 'cause' ->> 'event_id', 36) as event_id, h.attempt, h.duration_s)
        insert into headrace_internal.action_result (ended_at, action_id, node_id, duration_s, attempts, namespace, action, outcome,
            event_id)
        select (select headrace.clock()), g.action_id, $4, g.duration_s, g.attempt, $5, g.action, 'done', g.event_id
        from gone g$ack$;
begin
    execute replace(replace($function$
create or replace function headrace.ack_actions(
    p_msg_ids     bigint[],
    p_attempts    integer[],
    p_durations_s real[],
    p_node_id     uuid default null,
    p_namespace   text default null,
    p_caller      headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $body$
declare
    v_queue text;
    v_done  integer;
begin
    p_namespace := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue := headrace_internal.queue_of(p_namespace);
    if v_queue = 'hr_default' then
        <ack in the default queue>;
    else
        execute format($sql$<ack in another queue>$sql$, 'q_' || v_queue) using p_msg_ids, p_attempts, p_durations_s, p_node_id, p_namespace;
    end if;
    get diagnostics v_done = row_count;
    if v_done < cardinality(p_msg_ids) then
        raise exception '% of % actions are no longer held: their lease ended before the handler did',
            cardinality(p_msg_ids) - v_done, cardinality(p_msg_ids)
            using errcode = 'HR206', hint = 'Another node may hold them now; raise lease_s or shorten the handler.';
    end if;
end
$body$
    $function$, '<ack in the default queue>', replace(v_ack, '%1$I', 'q_hr_default')), '<ack in another queue>', v_ack);
end
$do$;
