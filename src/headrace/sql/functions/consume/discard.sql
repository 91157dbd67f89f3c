-- Discards dead letters of a consumer: all, or one position. They are kept with the state 'discarded'. Returns how many.
create or replace function headrace.discard(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id integer := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_count       integer;
begin
    update headrace_internal.dead_letter d set state = 'discarded', ended_at = headrace.clock()
    where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind', 'redrive')
        and (p_position is null or d.position = p_position);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
