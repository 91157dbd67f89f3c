-- Drops a consumer with its cursors and dead letters. A consumer of rules, of a correlator or of a relay is rejected (HR223).
create or replace function headrace.drop_consumer(
    p_topic text, p_consumer text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
begin
    perform headrace_internal.refuse_reserved_consumer(p_consumer);
    delete from headrace_internal.consumer c where c.consumer_id = headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
end
$$;
