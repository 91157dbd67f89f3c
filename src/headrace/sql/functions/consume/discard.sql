-- Discards dead letters of a consumer: all, or one position. They are kept with the state 'discarded', and the events that wait behind
-- them are handled, in order. Returns how many were discarded.
-- Locks: the letters, for update, in the order of their positions: it waits for batches that hold events back behind them. Index:
-- dead_letter_held. Calls: headrace_internal.release_behind.
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
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_letters     bigint[];
    v_keys        text[];
    v_count       integer;
begin
    select array_agg(d.dead_letter_id) into v_letters
    from (
        select d.dead_letter_id from headrace_internal.dead_letter d
        where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind', 'redrive')
            and (p_position is null or d.position = p_position)
        order by d.position for update) d;
    with discarded as (
        update headrace_internal.dead_letter d set state = 'discarded', ended_at = headrace.clock()
        where d.dead_letter_id = any (v_letters) and d.state in ('dead', 'behind', 'redrive')
        returning d.key)
    select count(*), array_agg(distinct d.key) into v_count, v_keys from discarded d;
    if v_count > 0 then
        perform headrace_internal.release_behind(v_consumer_id, v_keys);
        perform headrace_internal.notify('headrace_log', (select c.topic_id::text from headrace_internal.consumer c where c.consumer_id = v_consumer_id));
    end if;
    return v_count;
end
$$;
