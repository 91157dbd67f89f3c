-- Begins a compilation: locks the cursor of a reserved consumer, so that no batch runs meanwhile, and returns its position, after which
-- new versions start. Null if there is no such consumer; p_create: it is created. Locks: the cursor row; it waits for a running batch.
-- Calls: create_internal_consumer.
create or replace function headrace_internal.begin_compilation(p_topic_id integer, p_consumer text, p_create boolean) returns bigint
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.create_internal_consumer(p_topic_id, p_consumer) where p_create;
    select u.position
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.topic_id = p_topic_id and c.consumer = p_consumer
    for no key update of u
$$;
