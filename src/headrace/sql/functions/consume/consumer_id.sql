-- The id of a consumer; raises HR102 if it does not exist.
create or replace function headrace_internal.consumer_id(p_topic text, p_consumer text, p_namespace text default null) returns bigint
language plpgsql stable
as $$
declare
    v_topic_id    integer := headrace.topic_id(p_topic, p_namespace);
    v_consumer_id bigint;
    v_known       text;
begin
    select c.consumer_id into v_consumer_id
    from headrace_internal.consumer c where c.topic_id = v_topic_id and c.consumer = p_consumer;
    if v_consumer_id is null then
        select string_agg(c.consumer, ', ' order by c.consumer) into v_known
        from headrace_internal.consumer c where c.topic_id = v_topic_id;
        raise exception 'topic "%" has no consumer "%"', p_topic, p_consumer
            using errcode = 'HR102', hint = format('Known consumers: %s.', coalesce(v_known, 'none'));
    end if;
    return v_consumer_id;
end
$$;
