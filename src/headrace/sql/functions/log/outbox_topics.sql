-- The topics that have rows in the outbox, one index probe per topic and slot. Index: outbox_order.
create or replace function headrace_internal.outbox_topics() returns setof integer
language sql stable
as $$
    with recursive waiting (topic_id) as (
        (select o.topic_id from headrace_internal.outbox o order by o.topic_id limit 1)
        union all
        select (select o.topic_id from headrace_internal.outbox o where o.topic_id > w.topic_id order by o.topic_id limit 1)
        from waiting w where w.topic_id is not null
    )
    select w.topic_id from waiting w where w.topic_id is not null
$$;
