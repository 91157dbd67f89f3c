-- The reserved consumer of a topic with rules, from the head of the log on. It holds back the log's retention, so it is
-- there only while there are rules. Locks nothing: two at once are one. Always true.
create or replace function headrace_internal.watch_topic(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_consumer_id integer;
begin
    insert into headrace_internal.consumer (topic_id, consumer, ordered_by) values (p_topic_id, 'headrace.rules', 'topic')
    on conflict on constraint consumer_name_unique do nothing
    returning consumer_id into v_consumer_id;
    if v_consumer_id is not null then
        insert into headrace_internal.cursor (consumer_id, partition, position)
        select v_consumer_id, -1, coalesce((select h.position from headrace_internal.log_head(p_topic_id) h), t.dropped_to)
        from headrace.topic t where t.topic_id = p_topic_id;
    end if;
    return true;
end
$$;
