-- Deletes the internal consumer of a correlator that is not active, so that it does not hold back retention. True if it did.
-- A transaction that has activated the correlator again and is still open holds the consumer's row: the consumer then stays, and a
-- later compilation decides. Locks: the consumer row, for update, skip locked.
create or replace function headrace_internal.unwatch_correlator(p_correlator_id integer) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer_id bigint;
begin
    select c.consumer_id into v_consumer_id
    from headrace_internal.correlator k
    join headrace_internal.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
    where k.correlator_id = p_correlator_id
    for update of c skip locked;
    -- Checked while the row is locked: whoever activates the correlator from here on waits for us, and creates the consumer again.
    if not found or exists (select from headrace_internal.correlator k where k.correlator_id = p_correlator_id and k.active) then
        return false;
    end if;
    delete from headrace_internal.consumer c where c.consumer_id = v_consumer_id;
    return true;
end
$$;
