-- The id of a topic; raises HR101 when there is none.
create or replace function headrace.topic_id(p_topic text, p_namespace text default null) returns integer
language plpgsql stable
as $$
declare
    v_topic_id integer;
begin
    select t.topic_id into v_topic_id
    from headrace.topic t where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic;
    if v_topic_id is null then
        perform headrace.raise_unknown_topic(p_topic, p_namespace);
    end if;
    return v_topic_id;
end
$$;

-- Creates a topic with its branch of the log, and returns its id. Raises HR201 when it is there already.
drop function if exists headrace.create_topic(text, integer, interval, text, text);  -- It had a parameter less.
create or replace function headrace.create_topic(
    p_topic          text,
    p_partitions     integer default 1,
    p_retention      interval default null,
    p_time_partition text default 'month',
    p_namespace      text default null,
    p_clock          text default 'server'
) returns integer
language plpgsql volatile
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_path      text := current_setting('search_path');
    v_topic_id  integer;
begin
    insert into headrace.topic (namespace, topic, partitions, retention, time_partition, clock)
    values (v_namespace, p_topic, p_partitions, p_retention, p_time_partition, p_clock)
    on conflict on constraint topic_name_unique do nothing
    returning topic_id into v_topic_id;
    if v_topic_id is null then
        raise exception 'topic "%" is already there in namespace "%"', p_topic, v_namespace
            using errcode = 'HR201', hint = 'Change it with headrace.alter_topic, or choose another name.';
    end if;
    insert into headrace.topic_border (topic_id, position, partitions) values (v_topic_id, 0, p_partitions);
    perform headrace.add_branch(v_topic_id);
    -- pg_partman leaves the path it found as the session's own, and in there that is the pinned one.
    if current_setting('search_path') <> v_path then
        perform set_config('search_path', v_path, false);
    end if;
    return v_topic_id;
end
$$;

-- Changes a topic; what is null stays. Retention '0' means: keep the log for ever.
-- More partitions take effect right after the current head: consumers bring every partition up to that border before any
-- passes it, so each key keeps its order. Fewer partitions are refused (HR204).
-- Locks: the topic row, so it waits for a running sequencer batch.
create or replace function headrace.alter_topic(
    p_topic      text,
    p_partitions integer default null,
    p_retention  interval default null,
    p_namespace  text default null
) returns void
language plpgsql volatile
as $$
declare
    v_topic record;
    v_head  bigint;
begin
    select t.topic_id, t.partitions, t.dropped_to into v_topic
    from headrace.topic t where t.topic_id = headrace.topic_id(p_topic, p_namespace) for no key update;
    if p_partitions < v_topic.partitions then
        raise exception 'topic "%" has % partitions; % would be fewer', p_topic, v_topic.partitions, p_partitions
            using errcode = 'HR204', hint = 'The number of partitions can only be raised.';
    end if;
    if p_partitions > v_topic.partitions then
        v_head := coalesce((select h.position from headrace.log_head(v_topic.topic_id) h), v_topic.dropped_to);
        insert into headrace.topic_border (topic_id, position, partitions) values (v_topic.topic_id, v_head, p_partitions)
        on conflict on constraint topic_border_pkey do update set partitions = excluded.partitions;
        insert into headrace.cursor (consumer_id, partition, position)
        select c.consumer_id, p.partition, v_head
        from headrace.consumer c
        cross join generate_series(v_topic.partitions, p_partitions - 1) p (partition)
        where c.topic_id = v_topic.topic_id and c.ordered_by = 'partition';
    end if;
    update headrace.topic t
    set partitions = coalesce(p_partitions, t.partitions),
        retention = case when p_retention is null then t.retention
            when p_retention = interval '0' then null else p_retention end
    where t.topic_id = v_topic.topic_id;
end
$$;

-- Drops a topic with its log, consumers, captures and what waits in its outbox.
-- Refused (HR203) while consumers exist or tables are captured into it, unless forced; and (HR207) when its locks are not to be had.
-- Locks: the topic row; the whole log, access exclusive, at most 2 s of waiting: all sequencers and consumers queue behind.
create or replace function headrace.drop_topic(p_topic text, p_force boolean default false, p_namespace text default null)
returns void
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    v_topic_id  integer := headrace.topic_id(p_topic, p_namespace);
    v_consumers text;
    v_captured  text;
begin
    perform from headrace.topic t where t.topic_id = v_topic_id for update;
    select string_agg(c.consumer, ', ' order by c.consumer) into v_consumers
    from headrace.consumer c where c.topic_id = v_topic_id;
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
    delete from headrace.outbox o where o.topic_id = v_topic_id;
    delete from headrace.topic t where t.topic_id = v_topic_id;
    perform headrace.drop_branch(v_topic_id);
exception when lock_not_available then
    raise exception 'topic "%" is not dropped: another transaction has held its row or the log for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again while no long transaction reads the log.';
end
$$;
