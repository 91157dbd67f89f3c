-- Before a topic is inserted: it checks payloads if a type of its namespace is checked. Whoever changes that holds the namespace's row
-- until the end of the transaction. Locks: the namespace's row, key share, as the foreign key does anyway.
create or replace function headrace_internal.topic_checks_payloads() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from headrace_internal.namespace n where n.namespace = new.namespace for key share;
    new.schemas_digest := headrace_internal.schemas_digest(new.namespace);
    new.checks_payloads := new.schemas_digest is not null;
    return new;
end
$$;

create or replace trigger topic_checks_payloads before insert on headrace_internal.topic
for each row execute function headrace_internal.topic_checks_payloads();
