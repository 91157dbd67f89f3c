-- Sends dead letters to the queue again, with the same id and no attempts: by id, by action, by error group, or all. The originals
-- stay in the archive of the dead-letter queue. Returns how many.
create or replace function headrace.redrive_actions(
    p_ids bigint[] default null, p_action text default null, p_error text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue     text := headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace));
    v_ids       bigint[];
    v_actions   jsonb[];
begin
    select array_agg(d.dead_letter_id order by d.dead_letter_id) into v_ids
    from headrace.action_dead_letters(p_ids, p_action, p_error, p_namespace => v_namespace) d
    where d.action_id is not null and d.action is not null;
    -- Only what this transaction marks is sent: two concurrent redrives send each letter once.
    execute format($sql$
        with marked as (
            update pgmq.%I d set message = d.message || jsonb_build_object('redriven_at', headrace.clock())
            where d.msg_id = any ($1) returning d.msg_id, d.message)
        select array_agg(m.msg_id order by m.msg_id), array_agg((m.message -> 'action') || jsonb_build_object(
            'payload', coalesce(m.message -> 'edited_payload', m.message -> 'action' -> 'payload'),
            'redriven_from', m.msg_id) order by m.msg_id)
        from marked m
        $sql$, 'q_' || v_queue)
    into v_ids, v_actions using v_ids;
    if v_ids is null then
        return 0;
    end if;
    perform headrace.send_actions(v_namespace, v_actions);
    perform pgmq.archive(v_queue, v_ids);
    return cardinality(v_ids);
end
$$;
