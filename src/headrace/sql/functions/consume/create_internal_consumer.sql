-- Creates the internal consumer of a topic's rules or of a correlator, at the head of the log. It holds back retention, so it
-- exists only while they do. Locks nothing; two calls at once create one consumer. Always true.
create or replace function headrace_internal.create_internal_consumer(p_topic_id integer, p_consumer text) returns boolean
language plpgsql volatile
as $$
declare
    v_consumer_id integer;
begin
    insert into headrace_internal.consumer (topic_id, consumer, ordered_by) values (p_topic_id, p_consumer, 'topic')
    on conflict on constraint consumer_name_unique do nothing
    returning consumer_id into v_consumer_id;
    if v_consumer_id is not null then
        insert into headrace_internal.cursor (consumer_id, partition, position)
        select v_consumer_id, -1, coalesce((select h.position from headrace.log_head(p_topic_id) h), t.dropped_to)
        from headrace_internal.topic t where t.topic_id = p_topic_id;
    end if;
    return true;
end
$$;
