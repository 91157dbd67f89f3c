-- The names of a table's columns, in their order.
create or replace function headrace.table_columns(p_table regclass) returns text[]
language sql stable
as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a where a.attrelid = p_table and a.attnum > 0 and not a.attisdropped
$$;

-- The columns that make the key of a captured row: the one given, else the primary key's, else none.
create or replace function headrace.capture_key(p_table regclass, p_key_column text) returns text[]
language sql stable
as $$
    select case when p_key_column is not null then array[p_key_column] else coalesce((
        select array_agg(a.attname::text order by k.place)
        from pg_index i
        cross join unnest(i.indkey) with ordinality k (attnum, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = p_table and i.indisprimary and k.place <= i.indnkeyatts
    ), '{}') end
$$;

-- Refuses columns that the table does not have (HR300), naming those it has.
create or replace function headrace.capture_columns_exist(p_table regclass, p_known text[], p_wanted text[]) returns void
language plpgsql stable
as $$
declare
    v_missing text := (select min(w.name) from unnest(p_wanted) w (name) where w.name <> all (p_known));
begin
    if v_missing is not null then
        raise exception 'table % has no column "%"', p_table, v_missing
            using errcode = 'HR300', hint = format('Its columns are %s.', array_to_string(p_known, ', '));
    end if;
end
$$;

-- Makes the statement trigger of one operation. Transition tables carry all rows of the statement at once.
create or replace function headrace.make_capture_trigger(p_table regclass, p_topic_id integer, p_operation text) returns void
language plpgsql volatile
as $$
begin
    execute format('create trigger %I after %s on %s referencing %s for each statement execute function headrace.capture_rows(%L)',
        format('headrace_capture_%s_%s', p_topic_id, p_operation),
        p_operation,
        p_table,
        case p_operation when 'insert' then 'new table as new_rows' when 'delete' then 'old table as old_rows'
            else 'old table as old_rows new table as new_rows' end,
        p_topic_id);
end
$$;

-- Drops the triggers of one capture, as far as they are there.
create or replace function headrace.drop_capture_triggers(p_table regclass, p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_name name;
begin
    for v_name in
        select t.tgname from pg_trigger t
        where t.tgrelid = p_table and t.tgfoid = 'headrace.capture_rows()'::regprocedure
            and t.tgname in (select format('headrace_capture_%s_%s', p_topic_id, o.operation)
                from unnest('{insert,update,delete}'::text[]) o (operation))
    loop
        execute format('drop trigger %I on %s', v_name, p_table);
    end loop;
end
$$;
