-- Removes the consumer, the keys and the function of a correlator that is dropped or not active. Its consumer would hold back
-- retention.
create or replace function headrace_internal.retire_correlator(p_correlator_id integer, p_position bigint) returns void
language plpgsql volatile
as $$
begin
    perform headrace_internal.end_correlator_version(p_correlator_id, p_position);
    delete from headrace_internal.correlator_instance i where i.correlator_id = p_correlator_id;
    delete from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id;
    delete from headrace_internal.consumer c using headrace_internal.correlator k
    where k.correlator_id = p_correlator_id and c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator;
    perform headrace_internal.drop_symbols(p_correlator_id);
end
$$;
