-- Creates and drops the queues of a namespace together with it.
create or replace function headrace_internal.follow_namespace() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
begin
    if tg_op = 'INSERT' then
        perform headrace_internal.create_queue(new.namespace);
    else
        v_queue := headrace_internal.queue_for(old.namespace, old.namespace_id);
        perform pgmq.drop_queue(v_queue);
        perform pgmq.drop_queue(headrace_internal.dead_letter_queue(v_queue));
    end if;
    return null;
end
$$;
