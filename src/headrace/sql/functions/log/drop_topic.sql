-- Drops a topic with its log, consumers, captures and waiting events.
-- Rejected (HR203) while consumers exist or tables are captured into it, unless forced; and (HR207) when it cannot get its locks.
-- Locks: the topic row; the whole log, access exclusive, for at most 2 s of waiting: all sequencers and consumers queue behind it.
create or replace function headrace.drop_topic(
    p_topic text, p_force boolean default false, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic_id  integer := headrace.topic_id(p_topic, v_namespace);
    v_consumers text;
    v_captured  text;
    v_partman   text := (select p.schema from headrace_internal.partman(v_topic_id) p);
begin
    perform from headrace_internal.topic t where t.topic_id = v_topic_id for update;
    select string_agg(c.consumer, ', ' order by c.consumer) into v_consumers
    from headrace_internal.consumer c where c.topic_id = v_topic_id;
    if v_consumers is not null and not p_force then
        raise exception 'topic "%" has consumers: %', p_topic, v_consumers
            using errcode = 'HR203', hint = 'Drop them first, or force it.';
    end if;
    select string_agg(regexp_replace(c.captured::text, '^public\.', ''), ', ' order by c.captured::text) into v_captured
    from headrace_internal.capture c where c.topic_id = v_topic_id;
    if v_captured is not null and not p_force then
        raise exception 'tables are captured into topic "%": %', p_topic, v_captured
            using errcode = 'HR203', hint = 'Release them first with headrace.release_capture, or force it.';
    end if;
    -- A capture trigger on a table of somebody else stays. It publishes nothing any more.
    perform headrace.release_capture(c.captured, p_topic, v_namespace)
    from headrace_internal.capture c join pg_class t on t.oid = c.captured and pg_has_role(t.relowner, 'usage')
    where c.topic_id = v_topic_id;
    delete from headrace_internal.outbox o where o.topic_id = v_topic_id;
    delete from headrace_internal.topic t where t.topic_id = v_topic_id;
    if v_partman is not null then
        execute format('delete from %I.part_config where parent_table = %L', v_partman, 'headrace_internal.log_' || v_topic_id);
    end if;
    execute format('drop table if exists headrace_internal.%I', 'log_' || v_topic_id);
exception when lock_not_available then
    raise exception 'topic "%" is not dropped: another transaction has held its row or the log for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again while no long transaction reads the log.';
end
$$;
