-- Creates a topic and returns its id; the trigger headrace_internal.topic_created creates its branch of the log.
-- Raises HR201 when the topic exists already.
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
        raise exception 'topic "%" already exists in namespace "%"', p_topic, v_namespace
            using errcode = 'HR201', hint = 'Change it with headrace.alter_topic, or choose another name.';
    end if;
    -- pg_partman sets the session's search_path to the one it found, which in the trigger is the pinned one.
    if current_setting('search_path') <> v_path then
        perform set_config('search_path', v_path, false);
    end if;
    return v_topic_id;
end
$$;
