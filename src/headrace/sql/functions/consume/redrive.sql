-- Marks dead letters of a consumer to be handled again: all, or one position; the events behind them follow in order. Returns how
-- many.
create or replace function headrace.redrive(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_count       integer;
begin
    update headrace_internal.dead_letter d set state = 'redrive'
    where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind')
        and (p_position is null or d.position = p_position
            or (d.state = 'behind' and d.key = (select k.key from headrace_internal.dead_letter k
                where k.consumer_id = v_consumer_id and k.position = p_position)));
    get diagnostics v_count = row_count;
    perform headrace_internal.notify('headrace_log', (select c.topic_id::text from headrace_internal.consumer c where c.consumer_id = v_consumer_id));
    return v_count;
end
$$;
