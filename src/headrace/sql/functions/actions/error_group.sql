-- The common part of similar errors: the first line, with numbers and quoted parts replaced.
create or replace function headrace_internal.error_group(p_error text) returns text
language sql immutable parallel safe
as $$
    select left(regexp_replace(regexp_replace(split_part(p_error, E'\n', 1), '''[^'']*''|"[^"]*"', '…', 'g'), '[0-9]+', '#', 'g'), 200)
$$;
