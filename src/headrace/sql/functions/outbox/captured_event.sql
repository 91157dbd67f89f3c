-- A changed row as an event: type, key and payload. Raises HR304 when the type column does not hold a name, and HR300 when a
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
    payload := headrace_internal.captured_columns(p_row, p_capture.columns);
    if p_old is not null then
        payload := payload || jsonb_build_object('_old', coalesce((
            select jsonb_object_agg(o.key, o.value)
            from jsonb_each(headrace_internal.captured_columns(p_old, p_capture.columns)) o
            where o.value is distinct from payload -> o.key), '{}'));
    end if;
end
$$;
