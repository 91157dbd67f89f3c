-- Records what a table's rows become in a topic; headrace.capture calls it and creates the triggers. Takes the level admin, and the
-- right TRIGGER on the table.
create or replace function headrace.record_capture(
    p_table       regclass,
    p_topic_id    integer,
    p_key_columns text[],
    p_type_column text,
    p_types       text[],
    p_columns     text[],
    p_caller      headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    perform headrace_internal.refuse_reserved_topic(t.topic) from headrace_internal.topic t where t.topic_id = p_topic_id;
    if has_table_privilege(p_caller, p_table, 'trigger') is not true then
        raise exception 'permission denied for table %', p_table
            using errcode = '42501', hint = 'Capturing a table takes the right TRIGGER on it.';
    end if;
    insert into headrace_internal.capture
        (captured, topic_id, key_columns, type_column, insert_type, update_type, delete_type, columns)
    values (p_table, p_topic_id, p_key_columns, p_type_column, p_types[1], p_types[2], p_types[3], p_columns)
    on conflict on constraint capture_pkey do update
    set key_columns = excluded.key_columns, type_column = excluded.type_column, insert_type = excluded.insert_type,
        update_type = excluded.update_type, delete_type = excluded.delete_type, columns = excluded.columns;
end
$$;
