-- Takes the fields of an erasure out of actions in one table of a queue; returns how many. A dead letter also loses its error text and
-- traceback, which may quote a value. "redacted" says by which erasure, and which attempt was the last before it: its handler has the
-- fields in hand, see headrace.fail_action. Locks: the rows.
create or replace function headrace_internal.redact_actions(
    p_erasure headrace_internal.erasure, p_table text, p_is_letter boolean, p_action_ids uuid[], p_is_output boolean
) returns bigint
language plpgsql volatile
as $$
declare
    v_rows bigint;
begin
    execute format($sql$
        update pgmq.%I q
        set message = case when $1 then q.message || jsonb_build_object('action', n.action, 'error', '(erased)', 'traceback', null)
                || case when q.message ? 'edited_payload' then jsonb_build_object('edited_payload',
                    headrace_internal.erased_payload(q.message -> 'edited_payload', $3, $4)) else '{}' end
            else n.action end
        from (
            select o.msg_id, o.action - 'unique_key' || jsonb_build_object(
                'payload', headrace_internal.erased_payload(o.action -> 'payload', $3, $4),
                'key', headrace_internal.erased_key(o.action ->> 'key', $5, $4),
                'redacted', jsonb_build_object('erasure', $6, 'attempt', o.read_ct)) as action
            from (select o.msg_id, o.read_ct, case when $1 then o.message -> 'action' else o.message end as action from pgmq.%I o) o
            where o.action ->> 'id' = any ($2::text[])
        ) n
        where n.msg_id = q.msg_id
        $sql$, p_table, p_table)
    using p_is_letter, p_action_ids, p_erasure.fields, p_is_output, p_erasure.new_key, p_erasure.erasure_id;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
