-- The trigger: publishes the rows a statement has changed, in the order in which it changed them.
-- Payload: the row; an update has also "_old", the former values of the columns it changed. An update that changed no
-- captured column publishes nothing. Runs with the writer's rights, who therefore needs those of headrace.publish and to
-- read headrace.capture: as definer it would lend the owner's rights to casts that the table's owner may define.
-- PostgreSQL fills both transition tables row by row, so the n-th old row belongs to the n-th new one, also when the
-- update changed the primary key or moved the row to another partition.
create or replace function headrace_internal.capture_rows() returns trigger
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
        insert into headrace_internal.outbox (topic_id, type, key, payload, headers)
        select v_capture.topic_id, e.type, e.key, e.payload, v_headers
        from (select row_number() over () as place, to_jsonb(n.*) as new_row from new_rows n) r
        cross join lateral headrace_internal.captured_event(v_capture, v_capture.insert_type, r.new_row, null) e
        where headrace_internal.event_within_limits(e.type, e.key, e.payload, '{}')
        order by r.place;
    elsif tg_op = 'DELETE' then
        insert into headrace_internal.outbox (topic_id, type, key, payload, headers)
        select v_capture.topic_id, e.type, e.key, e.payload, v_headers
        from (select row_number() over () as place, to_jsonb(o.*) as old_row from old_rows o) r
        cross join lateral headrace_internal.captured_event(v_capture, v_capture.delete_type, r.old_row, null) e
        where headrace_internal.event_within_limits(e.type, e.key, e.payload, '{}')
        order by r.place;
    else
        insert into headrace_internal.outbox (topic_id, type, key, payload, headers)
        select v_capture.topic_id, e.type, e.key, e.payload, v_headers
        from (select row_number() over () as place, to_jsonb(n.*) as new_row from new_rows n) r
        join (select row_number() over () as place, to_jsonb(o.*) as old_row from old_rows o) p using (place)
        cross join lateral headrace_internal.captured_event(v_capture, v_capture.update_type, r.new_row, p.old_row) e
        where e.payload -> '_old' <> '{}' and headrace_internal.event_within_limits(e.type, e.key, e.payload, '{}')
        order by place;
    end if;
    get diagnostics v_rows = row_count;
    if v_rows > 0 then
        perform headrace_internal.wake_topics(array[v_capture.topic_id]);
    end if;
    return null;
end
$$;
