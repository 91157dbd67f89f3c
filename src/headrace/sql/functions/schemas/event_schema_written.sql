-- After a schema was set, changed or dropped: marks the topics of the namespace in which publishing has to check payloads. A publisher
-- whose snapshot is older than that does not check. Locks: the topics' rows, for a moment; a sequencer finishes its batch first.
create or replace function headrace_internal.event_schema_written() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := coalesce(new.namespace, old.namespace);
    v_checks    boolean := exists (
        select from headrace_internal.event_schema s where s.namespace = v_namespace and s.validation <> 'off');
begin
    update headrace_internal.topic t set checks_payloads = v_checks
    where t.namespace = v_namespace and t.checks_payloads <> v_checks;
    return null;
end
$$;

create or replace trigger event_schema_written after insert or update or delete on headrace_internal.event_schema
for each row execute function headrace_internal.event_schema_written();
