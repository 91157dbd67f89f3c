-- The chosen columns of a row; all of them if p_columns is null.
create or replace function headrace_internal.captured_columns(p_row jsonb, p_columns text[]) returns jsonb
language sql immutable parallel safe
as $$
    select case when p_columns is null then p_row else
        (select coalesce(jsonb_object_agg(c.key, c.value), '{}') from jsonb_each(p_row) c where c.key = any (p_columns)) end
$$;
