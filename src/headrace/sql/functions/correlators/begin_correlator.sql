-- Begins the compilation of a correlator's pending versions: locks its cursor, so that no batch runs meanwhile, and returns its
-- position, after which the new version starts. Null for a correlator without a consumer (dropped, or not active before).
-- Locks: the cursor row; it waits for a running batch.
create or replace function headrace_internal.begin_correlator(p_correlator_id integer) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_position bigint;
begin
    perform headrace_internal.create_internal_consumer(c.topic_id, 'headrace.correlator.' || c.correlator)
    from headrace_internal.correlator c where c.correlator_id = p_correlator_id and c.active;
    select u.position into v_position
    from headrace_internal.correlator k
    join headrace_internal.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where k.correlator_id = p_correlator_id
    for no key update of u;
    return v_position;
end
$$;
