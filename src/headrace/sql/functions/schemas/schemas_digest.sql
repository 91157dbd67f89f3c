-- A digest of the schemas that payloads of a namespace are checked by: another one after every change of them. Null if there are none.
-- Locks nothing. Index: event_schema_pkey.
create or replace function headrace_internal.schemas_digest(p_namespace text) returns bigint
language sql stable
as $$
    select hashtextextended(string_agg(concat_ws(' ', s.event_type, s.validation, md5(s.schema::text)), ',' order by s.event_type), 0)
    from headrace_internal.event_schema s
    where s.namespace = p_namespace and s.validation <> 'off'
$$;
