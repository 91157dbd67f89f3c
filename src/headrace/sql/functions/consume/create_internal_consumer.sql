-- Creates the internal consumer of a topic's rules or of a correlator, at the head of the log. It holds back retention, so it
-- exists only while they do. Two calls at once create one consumer. Always true.
-- Locks: the consumer row, key share, to the end of the transaction. Whoever would drop the consumer because nothing needs it must
-- not do so before this transaction, whose rule needs it, has ended: see unwatch_topic.
create or replace function headrace_internal.create_internal_consumer(p_topic_id integer, p_consumer text) returns boolean
language plpgsql volatile
as $$
declare
    v_consumer_id bigint;
begin
    loop
        insert into headrace_internal.consumer (topic_id, consumer, ordered_by) values (p_topic_id, p_consumer, 'topic')
        on conflict on constraint consumer_name_unique do nothing
        returning consumer_id into v_consumer_id;
        if v_consumer_id is not null then
            insert into headrace_internal.cursor (consumer_id, partition, position)
            select v_consumer_id, -1, coalesce((select h.position from headrace.log_head(p_topic_id) h), t.dropped_to)
            from headrace_internal.topic t where t.topic_id = p_topic_id;
            return true;
        end if;
        perform from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = p_consumer for key share;
        -- Not found: it was dropped while we waited for its lock.
        if found then
            return true;
        end if;
    end loop;
end
$$;
