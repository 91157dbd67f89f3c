-- The common part of similar errors: the first line, with numbers and quoted parts replaced.
-- Names are qualified: a view calls it under the reader's search_path.
create or replace function headrace_internal.error_group(p_error text) returns text
language sql immutable parallel safe
as $$
    select pg_catalog.left(pg_catalog.regexp_replace(pg_catalog.regexp_replace(pg_catalog.split_part(p_error, E'\n', 1),
        '''[^'']*''|"[^"]*"', '…', 'g'), '[0-9]+', '#', 'g'), 200)
$$;
