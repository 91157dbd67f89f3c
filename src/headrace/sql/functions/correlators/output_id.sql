-- The id of the action or event of an output. It follows from the output, so it is the same wherever it is computed: a uuid of
-- version 8.
create or replace function headrace_internal.output_id(
    p_version_id bigint, p_key text, p_position bigint, p_at timestamptz, p_place integer
) returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(concat_ws(':', p_version_id, coalesce(p_position, 0), extract(epoch from p_at), p_place, p_key))
        placing '8' from 13) placing '8' from 17)::uuid
$$;
