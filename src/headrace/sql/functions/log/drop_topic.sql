-- Drops a topic with its log, consumers, captures and what waits in its outbox.
-- Refused (HR203) while consumers exist or tables are captured into it, unless forced; and (HR207) when its locks are not to be had.
-- Locks: the topic row; the whole log, access exclusive, at most 2 s of waiting: all sequencers and consumers queue behind.
create or replace function headrace.drop_topic(p_topic text, p_force boolean default false, p_namespace text default null)
returns void
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    v_topic_id  integer := headrace_internal.topic_id(p_topic, p_namespace);
    v_consumers text;
    v_captured  text;
begin
    perform from headrace.topic t where t.topic_id = v_topic_id for update;
    select string_agg(c.consumer, ', ' order by c.consumer) into v_consumers
    from headrace_internal.consumer c where c.topic_id = v_topic_id;
    if v_consumers is not null and not p_force then
        raise exception 'topic "%" has consumers: %', p_topic, v_consumers
            using errcode = 'HR203', hint = 'Drop them first, or force it.';
    end if;
    select string_agg(c.captured::text, ', ' order by c.captured::text) into v_captured
    from headrace.capture c where c.topic_id = v_topic_id;
    if v_captured is not null and not p_force then
        raise exception 'tables are captured into topic "%": %', p_topic, v_captured
            using errcode = 'HR203', hint = 'Release them first with headrace.release_capture, or force it.';
    end if;
    perform headrace.release_capture(c.captured, p_topic, p_namespace) from headrace.capture c where c.topic_id = v_topic_id;
    delete from headrace_internal.outbox o where o.topic_id = v_topic_id;
    delete from headrace.topic t where t.topic_id = v_topic_id;
    perform headrace_internal.drop_branch(v_topic_id);
exception when lock_not_available then
    raise exception 'topic "%" is not dropped: another transaction has held its row or the log for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again while no long transaction reads the log.';
end
$$;
