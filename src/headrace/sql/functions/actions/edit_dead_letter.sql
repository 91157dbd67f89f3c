-- Changes the payload that a redrive will send; the original stays in the dead letter. Null restores the original.
create or replace function headrace.edit_dead_letter(p_dead_letter_id bigint, p_payload jsonb, p_namespace text default null)
returns void
language plpgsql volatile
as $$
declare
    v_found bigint;
begin
    if p_payload is not null then
        perform headrace.event_within_limits('edited', null, p_payload, '{}');
    end if;
    execute format($sql$
        update pgmq.%I d set message = case when $2 is null then d.message - 'edited_payload'
            else d.message || jsonb_build_object('edited_payload', $2) end
        where d.msg_id = $1 returning d.msg_id
        $sql$, 'q_' || headrace.queue_name(p_namespace) || '_dlq')
    into v_found using p_dead_letter_id, p_payload;
    if v_found is null then
        raise exception 'there is no dead letter % in namespace "%"', p_dead_letter_id, headrace.current_namespace(p_namespace)
            using errcode = 'HR103', hint = 'See: select dead_letter_id, action, error from headrace.action_dead_letters().';
    end if;
end
$$;
