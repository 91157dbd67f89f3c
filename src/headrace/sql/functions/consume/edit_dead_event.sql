-- Changes the payload with which a redrive gives a dead event of a consumer to its handler. The log never changes, and the original
-- payload stays in the dead letter. Null restores it. Raises HR103 if there is no open dead letter at this position.
-- Locks: the letter. Index: dead_letter_once.
create or replace function headrace.edit_dead_event(
    p_topic text, p_consumer text, p_position bigint, p_payload jsonb, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
begin
    if p_payload is not null then
        perform headrace.event_within_limits('edited', null, p_payload, '{}');
    end if;
    update headrace_internal.dead_letter d set edited_payload = p_payload
    where d.consumer_id = v_consumer_id and d.position = p_position and d.state in ('dead', 'behind', 'redrive');
    if not found then
        raise exception 'consumer "%" of topic "%" has no open dead letter at position %', p_consumer, p_topic, p_position
            using errcode = 'HR103', hint = 'See: select position, type, key, error from headrace.dead_letter where state = ''dead''.';
    end if;
end
$$;
