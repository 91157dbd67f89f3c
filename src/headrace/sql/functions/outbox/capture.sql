-- Turns inserts, updates and deletes on a table into events of a topic, in the transaction that makes them.
-- The type comes from a column of the row, or is given per operation (by default '<table>.inserted', '.updated', '.deleted').
-- The key comes from a column, by default from the primary key (several columns become a JSON array).
-- A second call for the same table and topic replaces the settings of the first.
-- Takes the level admin. Runs with the caller's rights: creating a trigger takes the right TRIGGER on the table.
-- Locks: share row exclusive on the table while the triggers are created, so it waits for open writers.
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
set search_path = pg_catalog, pg_temp
as $$
declare
    v_topic_id  integer := headrace.topic_id(p_topic, p_namespace);
    v_name      text := (select c.relname from pg_class c where c.oid = p_table);
    v_known     text[];
    v_key       text[];
    v_missing   text;
    v_operation text;
begin
    if not p_operations <@ '{insert,update,delete}' or cardinality(p_operations) = 0 then
        raise exception 'operations are %, which cannot be captured', p_operations
            using errcode = 'HR300', hint = 'Choose from insert, update and delete.';
    end if;
    select array_agg(a.attname::text order by a.attnum) into v_known
    from pg_attribute a where a.attrelid = p_table and a.attnum > 0 and not a.attisdropped;
    v_key := case when p_key_column is not null then array[p_key_column] else coalesce((
        select array_agg(a.attname::text order by k.place)
        from pg_index i
        cross join unnest(i.indkey) with ordinality k (attnum, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = p_table and i.indisprimary and k.place <= i.indnkeyatts), '{}') end;
    select min(w.name) into v_missing from unnest(v_key || p_type_column || p_columns) w (name) where w.name <> all (v_known);
    if v_missing is not null then
        raise exception 'table % has no column "%"', p_table, v_missing
            using errcode = 'HR300', hint = format('Its columns are %s.', array_to_string(v_known, ', '));
    end if;
    if '_old' = any (coalesce(p_columns, v_known)) then
        raise exception 'table % has a column "_old", which is reserved for the old values of an update', p_table
            using errcode = 'HR300', hint = 'Name the other columns in p_columns.';
    end if;
    p_insert_type := coalesce(p_insert_type, v_name || '.inserted');
    p_update_type := coalesce(p_update_type, v_name || '.updated');
    p_delete_type := coalesce(p_delete_type, v_name || '.deleted');
    if p_type_column is null then
        perform headrace.event_within_limits(t.type, null, 'null', '{}') from unnest(array[p_insert_type, p_update_type, p_delete_type]) t (type);
    end if;
    perform headrace.record_capture(p_table, v_topic_id, v_key, p_type_column, array[p_insert_type, p_update_type, p_delete_type], p_columns);
    perform headrace.drop_capture_triggers(p_table, v_topic_id);
    -- Transition tables carry all rows of a statement at once.
    foreach v_operation in array p_operations loop
        execute format('create or replace trigger %I after %s on %s referencing %s for each statement execute function headrace.capture_rows(%L)',
            format('headrace_capture_%s_%s', v_topic_id, v_operation), v_operation, p_table,
            case v_operation when 'insert' then 'new table as new_rows' when 'delete' then 'old table as old_rows'
                else 'old table as old_rows new table as new_rows' end,
            v_topic_id);
    end loop;
end
$$;
