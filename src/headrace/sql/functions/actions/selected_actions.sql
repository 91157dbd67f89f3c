-- The message ids of the actions that an operator has chosen; raises HR300 if nothing was chosen.
create or replace function headrace_internal.selected_actions(
    p_ids uuid[], p_action text, p_key text, p_state text, p_namespace text
) returns bigint[]
language plpgsql stable
as $$
begin
    if p_ids is null and p_action is null and p_key is null and p_state is null then
        raise exception 'no actions were chosen'
            using errcode = 'HR300', hint = 'Choose them by id, action, key or state; see headrace.queued_actions.';
    end if;
    return array(
        select a.msg_id from headrace.queued_actions(p_action, p_key, p_state, p_ids => p_ids, p_namespace => p_namespace) a);
end
$$;
