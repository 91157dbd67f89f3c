-- One changed row as an event: type, key and payload. Raises HR304 when the type column does not hold a name, and HR300
-- when a column the capture was made with is gone, so that no event goes out without its key.
create or replace function headrace.captured_event(
    p_capture headrace.capture, p_type text, p_row jsonb, p_old jsonb, out type text, out key text, out payload jsonb)
language plpgsql stable
as $$
begin
    if not p_row ?& (p_capture.key_columns || p_capture.type_column || p_capture.columns) then
        raise exception 'table % is captured by columns it no longer has', p_capture.captured
            using errcode = 'HR300', hint = 'Call headrace.capture again with the columns of now.';
    end if;
    type := case when p_capture.type_column is null then p_type else p_row ->> p_capture.type_column end;
    if p_capture.type_column is not null and (type is null or type !~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$') then
        raise exception 'column "%" of table % holds "%", which is not an event type',
                p_capture.type_column, p_capture.captured, left(type, 200)
            using errcode = 'HR304', hint = 'Use 1 to 200 letters, digits and _ . : / - and start with a letter or _.';
    end if;
    key := case cardinality(p_capture.key_columns) when 0 then null
        when 1 then p_row ->> p_capture.key_columns[1]
        else (select jsonb_agg(p_row -> k.name order by k.place)
            from unnest(p_capture.key_columns) with ordinality k (name, place))::text end;
    payload := headrace.captured_columns(p_row, p_capture.columns);
    if p_old is not null then
        payload := payload || jsonb_build_object('_old', coalesce((
            select jsonb_object_agg(o.key, o.value)
            from jsonb_each(headrace.captured_columns(p_old, p_capture.columns)) o
            where o.value is distinct from payload -> o.key), '{}'));
    end if;
end
$$;

-- The chosen columns of a row; all of them when none are chosen.
create or replace function headrace.captured_columns(p_row jsonb, p_columns text[]) returns jsonb
language sql immutable parallel safe
as $$
    select case when p_columns is null then p_row else
        (select coalesce(jsonb_object_agg(c.key, c.value), '{}') from jsonb_each(p_row) c where c.key = any (p_columns)) end
$$;

-- The trigger: publishes the rows a statement has changed, in the order in which it changed them.
-- Payload: the row; an update has also "_old", the former values of the columns it changed. An update that changed no
-- captured column publishes nothing. Runs with the writer's rights, who therefore needs those of headrace.publish and to
-- read headrace.capture: as definer it would lend the owner's rights to casts that the table's owner may define.
-- PostgreSQL fills both transition tables row by row, so the n-th old row belongs to the n-th new one, also when the
-- update changed the primary key or moved the row to another partition.
create or replace function headrace.capture_rows() returns trigger
language plpgsql volatile
as $$
declare
    v_capture headrace.capture;
    v_headers jsonb := jsonb_build_object('table', format('%I.%I', tg_table_schema, tg_table_name), 'operation', lower(tg_op));
    v_rows    bigint;
begin
    select c.* into v_capture from headrace.capture c where c.captured = tg_relid and c.topic_id = tg_argv[0]::integer;
    if not found then
        return null;
    end if;
    -- n.* and o.*: a bare n would be the column of that name, where the table has one.
    if tg_op = 'INSERT' then
        insert into headrace.outbox (topic_id, type, key, payload, headers)
        select v_capture.topic_id, e.type, e.key, e.payload, v_headers
        from (select row_number() over () as place, to_jsonb(n.*) as new_row from new_rows n) r
        cross join lateral headrace.captured_event(v_capture, v_capture.insert_type, r.new_row, null) e
        where headrace.event_within_limits(e.type, e.key, e.payload, '{}')
        order by r.place;
    elsif tg_op = 'DELETE' then
        insert into headrace.outbox (topic_id, type, key, payload, headers)
        select v_capture.topic_id, e.type, e.key, e.payload, v_headers
        from (select row_number() over () as place, to_jsonb(o.*) as old_row from old_rows o) r
        cross join lateral headrace.captured_event(v_capture, v_capture.delete_type, r.old_row, null) e
        where headrace.event_within_limits(e.type, e.key, e.payload, '{}')
        order by r.place;
    else
        insert into headrace.outbox (topic_id, type, key, payload, headers)
        select v_capture.topic_id, e.type, e.key, e.payload, v_headers
        from (select row_number() over () as place, to_jsonb(n.*) as new_row from new_rows n) r
        join (select row_number() over () as place, to_jsonb(o.*) as old_row from old_rows o) p using (place)
        cross join lateral headrace.captured_event(v_capture, v_capture.update_type, r.new_row, p.old_row) e
        where e.payload -> '_old' <> '{}' and headrace.event_within_limits(e.type, e.key, e.payload, '{}')
        order by place;
    end if;
    get diagnostics v_rows = row_count;
    if v_rows > 0 then
        perform headrace.wake_topics(array[v_capture.topic_id]);
    end if;
    return null;
end
$$;
