-- Changes the payload that a redrive will send; the original stays in the dead letter. Null restores the original.
create or replace function headrace.edit_dead_letter(
    p_dead_letter_id bigint, p_payload jsonb, p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_id        bigint;
begin
    if p_payload is not null then
        perform headrace.event_within_limits('edited', null, p_payload, '{}');
    end if;
    execute format($sql$
        update pgmq.%I d set message = case when $2 is null then d.message - 'edited_payload'
            else d.message || jsonb_build_object('edited_payload', $2) end
        where d.msg_id = $1 returning d.msg_id
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    into v_id using p_dead_letter_id, p_payload;
    if v_id is null then
        raise exception 'there is no dead letter % in namespace "%"', p_dead_letter_id, v_namespace
            using errcode = 'HR103', hint = 'See: select dead_letter_id, action, error from headrace.action_dead_letters().';
    end if;
end
$$;
