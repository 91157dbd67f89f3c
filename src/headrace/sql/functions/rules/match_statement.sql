-- The name under which a session prepares a program. Another program has another name.
create or replace function headrace_internal.match_statement(p_topic_id integer, p_kind text, p_checksum text) returns text
language sql immutable
as $$
    select format('headrace_%s_%s_%s', p_kind, p_topic_id, p_checksum)
$$;
