-- Turns inserts, updates and deletes on a table into events of a topic, in the transaction that makes them.
-- The type comes from a column of the row, or is given per operation ('<table>.inserted', '.updated', '.deleted' by default).
-- The key comes from a column, by default from the primary key (several columns become a JSON array).
-- Calling it again for the same table and topic replaces what was set.
-- Locks: share row exclusive on the table while the triggers are made, so it waits for open writers.
create or replace function headrace.capture(
    p_table       regclass,
    p_topic       text,
    p_key_column  text default null,
    p_type_column text default null,
    p_insert_type text default null,
    p_update_type text default null,
    p_delete_type text default null,
    p_columns     text[] default null,
    p_operations  text[] default '{insert,update,delete}',
    p_namespace   text default null
) returns void
language plpgsql volatile
as $$
declare
    v_topic_id integer := headrace_internal.topic_id(p_topic, p_namespace);
    v_name     text := (select c.relname from pg_class c where c.oid = p_table);
    v_key      text[] := headrace_internal.capture_key(p_table, p_key_column);
    v_known    text[] := headrace_internal.table_columns(p_table);
    v_type     text;
begin
    if not p_operations <@ '{insert,update,delete}' or cardinality(p_operations) = 0 then
        raise exception 'operations are %, which cannot be captured', p_operations
            using errcode = 'HR300', hint = 'Choose from insert, update and delete.';
    end if;
    perform headrace_internal.capture_columns_exist(p_table, v_known, v_key || p_type_column || p_columns);
    if '_old' = any (coalesce(p_columns, v_known)) then
        raise exception 'table % has a column "_old", the place of an update''s former values', p_table
            using errcode = 'HR300', hint = 'Name the other columns in p_columns.';
    end if;
    p_insert_type := coalesce(p_insert_type, v_name || '.inserted');
    p_update_type := coalesce(p_update_type, v_name || '.updated');
    p_delete_type := coalesce(p_delete_type, v_name || '.deleted');
    if p_type_column is null then
        foreach v_type in array array[p_insert_type, p_update_type, p_delete_type] loop
            perform headrace_internal.event_within_limits(v_type, null, 'null', '{}');
        end loop;
    end if;
    perform headrace_internal.drop_capture_triggers(p_table, v_topic_id);
    insert into headrace.capture
        (captured, topic_id, key_columns, type_column, insert_type, update_type, delete_type, columns)
    values (p_table, v_topic_id, v_key, p_type_column, p_insert_type, p_update_type, p_delete_type, p_columns)
    on conflict on constraint capture_pkey do update
    set key_columns = excluded.key_columns, type_column = excluded.type_column, insert_type = excluded.insert_type,
        update_type = excluded.update_type, delete_type = excluded.delete_type, columns = excluded.columns;
    perform headrace_internal.make_capture_trigger(p_table, v_topic_id, o.operation) from unnest(p_operations) o (operation);
end
$$;
