-- Adds the row of headrace_internal.claim for each new cursor of a topic's consumers; rules and correlators need none.
-- Index: consumer_name_unique, cursor_pkey. Call it while the topic is locked.
create or replace function headrace_internal.add_claims(p_topic_id integer) returns void
language sql volatile
as $$
    insert into headrace_internal.claim (consumer_id, partition)
    select u.consumer_id, u.partition
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id
    where c.topic_id = p_topic_id and c.consumer not like 'headrace.%'
    on conflict on constraint claim_pkey do nothing
$$;
