-- Lets pg_partman manage the branch of a new topic. True if it does.
create or replace function headrace_internal.partman_adopt(p_topic_id integer) returns boolean
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_partman record;
    v_width   text;
begin
    select p.schema, p.major into v_partman from headrace_internal.partman(p_topic_id) p;
    if not found then
        return false;
    end if;
    select t.time_partition into strict v_width from headrace.topic t where t.topic_id = p_topic_id;
    execute format('select %I.create_parent(p_parent_table := %L, p_control := %L, p_type := %L, p_interval := %L,'
            ' p_premake := 2, p_start_partition := %L)',
        v_partman.schema, 'headrace_internal.log_' || p_topic_id, 'appended_at',
        case when v_partman.major < 5 then 'native' else 'range' end,
        '1 ' || v_width, to_char(date_trunc(v_width, headrace.clock()), 'YYYY-MM-DD'));
    return true;
end
$$;
