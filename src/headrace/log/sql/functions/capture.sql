-- Returns a changed row as an event: type, key and payload. Raises HR304 when the type column does not hold a name, and HR300 when a
-- column of the capture no longer exists, so that no event is published without its key.
create or replace function headrace_internal.captured_event(
    p_capture headrace_internal.capture, p_type text, p_row jsonb, p_old jsonb, out type text, out key text, out payload jsonb)
language plpgsql stable
as $$
begin
    if not p_row ?& (p_capture.key_columns || p_capture.type_column || p_capture.columns) then
        raise exception 'table % is captured by columns it no longer has', p_capture.captured
            using errcode = 'HR300', hint = 'Call headrace.capture again with the current columns.';
    end if;
    type := case when p_capture.type_column is null then p_type else p_row ->> p_capture.type_column end;
    if p_capture.type_column is not null and (type is null or type !~ '^[A-Za-z_][A-Za-z0-9_.:/-]*( [A-Za-z0-9_.:/-]+)*$') then
        raise exception 'column "%" of table % holds "%", which is not an event type',
                p_capture.type_column, p_capture.captured, left(type, 200)
            using errcode = 'HR304', hint = 'Use 1 to 200 letters, digits, single spaces and _ . : / - and start with a letter or _.';
    end if;
    key := case cardinality(p_capture.key_columns) when 0 then null
        when 1 then p_row ->> p_capture.key_columns[1]
        else (select jsonb_agg(p_row -> k.name order by k.place)
            from unnest(p_capture.key_columns) with ordinality k (name, place))::text end;
    payload := case when p_capture.columns is null then p_row else (
        select coalesce(jsonb_object_agg(c.key, c.value), '{}') from jsonb_each(p_row) c where c.key = any (p_capture.columns)) end;
    if p_old is not null then
        payload := payload || jsonb_build_object('_old', coalesce((
            select jsonb_object_agg(o.key, o.value)
            from jsonb_each(p_old) o
            where (p_capture.columns is null or o.key = any (p_capture.columns)) and o.value is distinct from payload -> o.key), '{}'));
    end if;
end
$$;

-- Publishes rows of a captured table as events; the trigger headrace.capture_rows calls it. Payload: the row; that of an update has
-- also "_old", the former values of the columns it changed. An update that changed no captured column publishes nothing.
-- A table that is not captured any more publishes nothing. Locks nothing. Index: capture_pkey.
-- Calls: uuid_v7, captured_event, event_within_limits, check_payload, react_inline, write_events.
create or replace function headrace.publish_rows(
    p_topic_id  integer,
    p_table     regclass,
    p_operation text,
    p_new_rows  jsonb[],
    p_old_rows  jsonb[],
    p_caller    headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_capture headrace_internal.capture;
    v_headers jsonb;
    v_topic   record;
begin
    select c.* into v_capture from headrace_internal.capture c where c.captured = p_table and c.topic_id = p_topic_id;
    if not found then
        return;
    end if;
    perform headrace_internal.authorize_id(p_caller, 'publish', 'topic', p_topic_id);
    select jsonb_build_object('table', format('%I.%I', n.nspname, c.relname), 'operation', p_operation) into v_headers
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = p_table;
    select t.namespace, t.checks_payloads, t.has_inline_rules into v_topic from headrace_internal.topic t where t.topic_id = p_topic_id;
    perform headrace_internal.write_events(array(
        select row(null, e.emitted_at, p_topic_id, e.event_id, e.type, e.key, e.payload, v_headers, null)::headrace_internal.outbox
        from (
            select headrace.uuid_v7() as event_id, e.type, e.key, e.payload, headrace.clock() as emitted_at
            from unnest(coalesce(p_new_rows, p_old_rows), case p_operation when 'update' then p_old_rows end)
                with ordinality r (row_now, row_before, place)
            cross join lateral headrace_internal.captured_event(v_capture, case p_operation when 'insert' then v_capture.insert_type
                when 'delete' then v_capture.delete_type else v_capture.update_type end, r.row_now, r.row_before) e
            where (p_operation <> 'update' or e.payload -> '_old' <> '{}') and headrace.event_within_limits(e.type, e.key, e.payload, '{}')
                and (not v_topic.checks_payloads or headrace_internal.check_payload(v_topic.namespace, e.type, e.payload))
            order by r.place) e
        where not v_topic.has_inline_rules
            or headrace_internal.react_inline(p_topic_id, e.event_id, e.type, e.key, e.payload, v_headers, e.emitted_at, null)));
end
$$;

-- The trigger of a captured table: hands the rows that a statement has changed to headrace.publish_rows, in the order in which the
-- statement changed them. Runs with the writer's rights: to_jsonb calls casts that the table's owner may have defined, and those must not
-- run as our owner. The writer needs the right to publish to the topic. PostgreSQL fills both transition tables row by row, so the n-th old
-- row belongs to the n-th new one, also when the update changed the primary key or moved the row to another partition.
-- Calls: publish_rows.
create or replace function headrace.capture_rows() returns trigger
language plpgsql volatile
as $$
begin
    -- n.* and o.*: a bare n would be the column of that name, where the table has one.
    if tg_op <> 'UPDATE' then
        perform headrace.publish_rows(tg_argv[0]::integer, tg_relid, pg_catalog.lower(tg_op),
            case when tg_op = 'INSERT' then c.changed_rows end, case when tg_op = 'DELETE' then c.changed_rows end)
        from (
            select pg_catalog.array_agg(r.new_row order by r.place) as changed_rows
            from (
                select r.place, r.new_row, pg_catalog.sum(pg_catalog.pg_column_size(r.new_row)) over (order by r.place rows unbounded preceding) as bytes
                from (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(n.*) as new_row from changed_rows n) r
            ) r
            group by r.place / 1000, r.bytes / 16000000
            order by pg_catalog.min(r.place)
        ) c;
    else
        perform headrace.publish_rows(tg_argv[0]::integer, tg_relid, 'update', c.changed_rows, c.old_rows)
        from (
            select pg_catalog.array_agg(r.new_row order by r.place) as changed_rows, pg_catalog.array_agg(r.old_row order by r.place) as old_rows
            from (
                select place, r.new_row, p.old_row,
                    pg_catalog.sum(pg_catalog.pg_column_size(r.new_row) + pg_catalog.pg_column_size(p.old_row)) over (order by place rows unbounded preceding) as bytes
                from (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(n.*) as new_row from changed_rows n) r
                join (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(o.*) as old_row from old_rows o) p using (place)
            ) r
            group by r.place / 1000, r.bytes / 16000000
            order by pg_catalog.min(r.place)
        ) c;
    end if;
    return null;
end
$$;

-- Records what a table's rows become in a topic; headrace.capture calls it and creates the triggers. Takes the level admin, and the
-- right TRIGGER on the table.
-- Calls: refuse_reserved_topic.
create or replace function headrace.record_capture(
    p_table       regclass,
    p_topic_id    integer,
    p_key_columns text[],
    p_type_column text,
    p_types       text[],
    p_columns     text[],
    p_caller      headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Drops the triggers of one capture, with the caller's rights on the table. headrace_internal.capture and headrace.release_capture call it.
-- Calls: capture_rows.
create or replace function headrace.drop_capture_triggers(p_table regclass, p_topic_id integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
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

-- Turns inserts, updates and deletes on a table into events of a topic, in the transaction that makes them. The type comes from a column of
-- the row, or is given per operation (by default '<table>.inserted', '.updated', '.deleted'). The key comes from a column, by default from
-- the primary key (several columns become a JSON array). A second call for the same table and topic replaces the settings of the first.
-- Takes the level admin. Runs with the caller's rights: creating a trigger takes the right TRIGGER on the table.
-- Locks: share row exclusive on the table while the triggers are created, so it waits for open writers.
-- Calls: topic_id, event_within_limits, record_capture, drop_capture_triggers, capture_rows.
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
language plpgsql volatile set search_path = pg_catalog, pg_temp
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
            case v_operation when 'insert' then 'new table as changed_rows' when 'delete' then 'old table as changed_rows'
                else 'old table as old_rows new table as changed_rows' end,
            v_topic_id);
    end loop;
end
$$;

-- Deletes the record of a table's captures, into one topic or into all topics of the namespace, and returns the topics;
-- headrace.release_capture calls it and drops the triggers. Takes the level admin.
create or replace function headrace.forget_capture(
    p_table regclass, p_topic_id integer, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns setof integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    return query
        delete from headrace_internal.capture c
        using headrace_internal.topic t
        where c.captured = p_table and t.topic_id = c.topic_id and t.namespace = v_namespace
            and c.topic_id = coalesce(p_topic_id, c.topic_id)
        returning c.topic_id;
end
$$;

-- Ends the capture of a table into a topic, or into every topic if p_topic is null. Raises HR100 if it is not captured.
-- Locks: access exclusive on the table while the triggers are dropped.
-- Calls: topic_id, forget_capture, drop_capture_triggers.
create or replace function headrace.release_capture(p_table regclass, p_topic text default null, p_namespace text default null)
returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_only  integer := case when p_topic is not null then headrace.topic_id(p_topic, p_namespace) end;
    v_topic integer;
begin
    for v_topic in
        select f.topic_id from headrace.forget_capture(p_table, v_only, p_namespace) f (topic_id)
    loop
        perform headrace.drop_capture_triggers(p_table, v_topic);
    end loop;
    if not found then
        raise exception 'table % is not captured%', p_table, coalesce(format(' into topic "%s"', p_topic), '')
            using errcode = 'HR100', hint = 'Captured tables are listed in headrace.capture.';
    end if;
end
$$;
