-- Begins the compilation of a topic's pending versions: locks the cursor of the topic's rules, so that no batch runs meanwhile,
-- and returns its position, after which the new versions start. Locks: the cursor row; it waits for a running batch.
create or replace function headrace_internal.begin_compile(p_topic_id integer) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_position bigint;
begin
    perform headrace_internal.create_internal_consumer(p_topic_id, 'headrace.rules');
    select u.position into strict v_position
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.topic_id = p_topic_id and c.consumer = 'headrace.rules'
    for no key update of u;
    return v_position;
end
$$;
