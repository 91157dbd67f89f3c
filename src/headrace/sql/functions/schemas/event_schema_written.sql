-- After a schema was set, changed or dropped: marks the topics of the namespace in which publishing has to check payloads, and by which
-- schemas. A publisher whose snapshot is older than that checks by the schemas before. Locks: the topics' rows, for a moment; a sequencer finishes its batch first.
create or replace function headrace_internal.event_schema_written() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := coalesce(new.namespace, old.namespace);
    v_digest    bigint := headrace_internal.schemas_digest(v_namespace);
begin
    update headrace_internal.topic t set checks_payloads = v_digest is not null, schemas_digest = v_digest
    where t.namespace = v_namespace and t.schemas_digest is distinct from v_digest;
    return null;
end
$$;

create or replace trigger event_schema_written after insert or update or delete on headrace_internal.event_schema
for each row execute function headrace_internal.event_schema_written();
