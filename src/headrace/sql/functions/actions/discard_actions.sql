-- Deletes dead letters: by id, by action, by error group, or all; with p_redriven the originals kept after a redrive. Returns how
-- many.
create or replace function headrace.discard_actions(
    p_ids bigint[] default null, p_action text default null, p_error text default null, p_redriven boolean default false,
    p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_count     integer;
begin
    execute format('delete from pgmq.%I d where d.msg_id in (select l.dead_letter_id from headrace.action_dead_letters($1, $2, $3, $4, '
        'p_namespace => $5) l)', case when p_redriven then 'a_' else 'q_' end || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    using p_ids, p_action, p_error, p_redriven, v_namespace;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
