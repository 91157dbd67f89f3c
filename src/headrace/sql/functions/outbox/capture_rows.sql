-- The trigger of a captured table: hands the rows that a statement has changed to headrace.publish_rows, in the order in which the
-- statement changed them. Runs with the writer's rights: to_jsonb calls casts that the table's owner may have defined, and those
-- must not run as our owner. The writer needs the right to publish to the topic.
-- PostgreSQL fills both transition tables row by row, so the n-th old row belongs to the n-th new one, also when the
-- update changed the primary key or moved the row to another partition.
create or replace function headrace.capture_rows() returns trigger
language plpgsql volatile
as $$
begin
    -- n.* and o.*: a bare n would be the column of that name, where the table has one.
    if tg_op = 'INSERT' then
        perform headrace.publish_rows(tg_argv[0]::integer, tg_relid, 'insert', c.new_rows, null)
        from (
            select pg_catalog.array_agg(r.new_row order by r.place) as new_rows
            from (
                select r.place, r.new_row, pg_catalog.sum(pg_catalog.pg_column_size(r.new_row)) over (order by r.place rows unbounded preceding) as bytes
                from (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(n.*) as new_row from new_rows n) r
            ) r
            group by r.place / 1000, r.bytes / 16000000
            order by pg_catalog.min(r.place)
        ) c;
    elsif tg_op = 'DELETE' then
        perform headrace.publish_rows(tg_argv[0]::integer, tg_relid, 'delete', null, c.old_rows)
        from (
            select pg_catalog.array_agg(r.old_row order by r.place) as old_rows
            from (
                select r.place, r.old_row, pg_catalog.sum(pg_catalog.pg_column_size(r.old_row)) over (order by r.place rows unbounded preceding) as bytes
                from (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(o.*) as old_row from old_rows o) r
            ) r
            group by r.place / 1000, r.bytes / 16000000
            order by pg_catalog.min(r.place)
        ) c;
    else
        perform headrace.publish_rows(tg_argv[0]::integer, tg_relid, 'update', c.new_rows, c.old_rows)
        from (
            select pg_catalog.array_agg(r.new_row order by r.place) as new_rows, pg_catalog.array_agg(r.old_row order by r.place) as old_rows
            from (
                select place, r.new_row, p.old_row,
                    pg_catalog.sum(pg_catalog.pg_column_size(r.new_row) + pg_catalog.pg_column_size(p.old_row)) over (order by place rows unbounded preceding) as bytes
                from (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(n.*) as new_row from new_rows n) r
                join (select pg_catalog.row_number() over () as place, pg_catalog.to_jsonb(o.*) as old_row from old_rows o) p using (place)
            ) r
            group by r.place / 1000, r.bytes / 16000000
            order by pg_catalog.min(r.place)
        ) c;
    end if;
    return null;
end
$$;
