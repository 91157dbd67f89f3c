-- What users write of an event type: headrace.write_definition writes these columns and no others.
create or replace view headrace_internal.event_type_fields as
select r.namespace, r.event_type, r.description
from headrace_internal.event_type r;

-- Registered event types. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.event_type as
select r.namespace, r.event_type, r.description, r.created_at,
    false as dropped
from headrace_internal.readable_definitions(null::headrace_internal.event_type) r;

create or replace trigger event_type_write instead of insert or update or delete on headrace.event_type
for each row execute function headrace_internal.write_view();

-- What users write of an action: headrace.write_definition writes these columns and no others.
create or replace view headrace_internal.action_fields as
select r.namespace, r.action, r.description
from headrace_internal.action r;

-- Registered actions. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.action as
select r.namespace, r.action, r.description, r.created_at,
    false as dropped
from headrace_internal.readable_definitions(null::headrace_internal.action) r;

create or replace trigger action_write instead of insert or update or delete on headrace.action
for each row execute function headrace_internal.write_view();
