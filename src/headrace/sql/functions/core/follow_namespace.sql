-- Creates and drops the queues of a namespace together with it.
create or replace function headrace_internal.follow_namespace() returns trigger
language plpgsql volatile
as $$
begin
    if tg_op = 'INSERT' then
        perform headrace_internal.create_queue(new.namespace);
    else
        perform pgmq.drop_queue(headrace.queue_name(old.namespace));
        perform pgmq.drop_queue(headrace_internal.dead_letter_queue(old.namespace));
    end if;
    return null;
end
$$;
