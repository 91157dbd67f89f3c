-- Creates a topic and returns its id. Raises HR201 when the topic exists already. Takes the level admin.
-- pg_partman sets the session's search_path to the one it found, and only a function without a pinned one can put it back: this one.
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
    v_path     text := pg_catalog.current_setting('search_path');
    v_is_set   boolean := (select s.source = 'session' from pg_catalog.pg_settings s where s.name = 'search_path');
    v_topic_id integer := headrace.create_topic_as_role(p_topic, p_partitions, p_retention, p_time_partition, p_namespace, p_clock);
begin
    if pg_catalog.current_setting('search_path') <> v_path then
        if v_is_set then
            perform pg_catalog.set_config('search_path', v_path, false);
        else
            -- Without a trace: behind a pooler the session belongs to other clients too.
            reset search_path;
        end if;
    end if;
    return v_topic_id;
end
$$;
