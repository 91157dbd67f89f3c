-- Erases actions in the queue and among the dead letters of a namespace: those with these ids, those whose cause is one of these events,
-- and those with this key (null: none). Whole payloads: queued actions are cancelled and dead letters deleted, since nobody can handle
-- them any more. With fields: they stay, without the fields. Locks: the rows. It reads the queue as a whole.
create or replace function headrace_internal.erase_actions(
    p_erasure headrace_internal.erasure, p_action_ids uuid[], p_event_ids uuid[], p_key text, p_is_output boolean
) returns void
language plpgsql volatile
as $$
declare
    v_queue   text := headrace_internal.queue_of(p_erasure.namespace);
    v_letters text := headrace_internal.dead_letter_queue(v_queue);
    v_table   record;
    v_ids     uuid[] := p_action_ids;
    v_found   uuid[];
    v_rows    bigint;
begin
    for v_table in
        select t.name, t.is_letter, t.is_queue from (values
            ('q_' || v_queue, false, true), ('a_' || v_queue, false, false), ('q_' || v_letters, true, false), ('a_' || v_letters, true, false),
            -- Once more: a redrive may have moved a letter to the queue since the first look.
            ('q_' || v_queue, false, true)
        ) t (name, is_letter, is_queue)
    loop
        execute format($sql$
            select array_agg(headrace_internal.uuid_or_null(m.action ->> 'id'))
            from (select case when $1 then q.message -> 'action' else q.message end as action from pgmq.%I q) m
            where (m.action ->> 'id' = any ($2::text[]) or m.action -> 'cause' ->> 'event_id' = any ($3::text[]) or m.action ->> 'key' = $4)
                and (m.action -> 'redacted' ->> 'erasure') is distinct from $5::text
            $sql$, v_table.name)
        into v_found using v_table.is_letter, p_action_ids, p_event_ids, p_key, p_erasure.erasure_id;
        continue when v_found is null;
        v_ids := v_ids || v_found;
        if p_erasure.fields is null and v_table.is_queue then
            v_rows := headrace.cancel_actions(v_found, p_in_flight => true, p_namespace => p_erasure.namespace);
        elsif p_erasure.fields is null then
            execute format('delete from pgmq.%I q where (case when $1 then q.message -> ''action'' else q.message end) ->> ''id'' = any ($2::text[])',
                v_table.name) using v_table.is_letter, v_found;
            get diagnostics v_rows = row_count;
        else
            v_rows := headrace_internal.redact_actions(p_erasure, v_table.name, v_table.is_letter, v_found, p_is_output);
        end if;
        perform headrace_internal.count_erased(p_erasure.erasure_id, case when v_table.is_letter then 'dead letters of actions' else 'actions' end, v_rows);
    end loop;
    update headrace_internal.attempt a set error = '(erased)', traceback = null
    where a.namespace = p_erasure.namespace and a.action_id = any (v_ids) and a.error <> '(erased)';
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'attempts', v_rows);
    delete from headrace_internal.unique_action u where u.namespace = p_erasure.namespace and u.action_id = any (v_ids);
end
$$;
