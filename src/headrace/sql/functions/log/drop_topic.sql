-- Drops a topic with its log, consumers, captures and waiting events.
-- Rejected (HR203) while consumers exist or tables are captured into it, unless forced; and (HR207) when it cannot get its locks.
-- The branch of the log and waiting events are only marked: to drop the branch takes a lock on the whole log, which this transaction
-- would keep to its end, in front of every namespace. headrace.maintain_log drops it, headrace_internal.trim_outbox the events.
-- Right at every isolation level: it acts on the row that it has locked, and what that row's consumers and captures are is judged
-- again by the foreign keys. Locks: the topic row and what belongs to it; it waits at most 2 s.
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
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    perform from headrace_internal.topic t where t.topic_id = v_topic_id for update;
    if not found then
        perform headrace_internal.raise_unknown_topic(p_topic, v_namespace);
    end if;
    select string_agg(c.consumer, ', ' order by c.consumer) into v_consumers
    from headrace_internal.consumer c where c.topic_id = v_topic_id;
    if v_consumers is not null and not p_force then
        raise exception 'topic "%" has consumers: %', p_topic, v_consumers
            using errcode = 'HR203', hint = 'Drop them first (headrace consumer drop), or drop everything together (--force, p_force => true).';
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
    delete from headrace_internal.topic t where t.topic_id = v_topic_id;
    if v_partman is not null then
        execute format('delete from %I.part_config where parent_table = %L', v_partman, 'headrace_internal.log_' || v_topic_id);
    end if;
    insert into headrace_internal.dropped_topic (topic_id) values (v_topic_id);
exception when lock_not_available then
    raise exception 'topic "%" is not dropped: another transaction has held its row, its cursors or a captured table for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again when the handlers and transactions that use it have ended.';
end
$$;
