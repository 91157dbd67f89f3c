-- Gives dead letters of a consumer up: all, or one position. They stay on record as 'discarded'. Returns how many.
create or replace function headrace.discard(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_consumer_id integer := headrace_internal.consumer_id(p_topic, p_consumer, p_namespace);
    v_count       integer;
begin
    update headrace_internal.dead_letter d set state = 'discarded', ended_at = headrace.clock()
    where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind', 'redrive')
        and (p_position is null or d.position = p_position);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
