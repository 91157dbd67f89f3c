-- Adds to the number of erased rows of a place. Index: erasure_pkey.
create or replace function headrace_internal.count_erased(p_erasure_id bigint, p_place text, p_rows bigint) returns void
language sql volatile
as $$
    update headrace_internal.erasure e
    set row_counts = e.row_counts || jsonb_build_object(p_place, coalesce((e.row_counts ->> p_place)::bigint, 0) + p_rows)
    where e.erasure_id = p_erasure_id and p_rows > 0
$$;
