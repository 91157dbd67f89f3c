-- Rules. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.rule as
select r.rule_id, r.namespace, r.rule, r.topic, r.event_type, r.condition, r.action, r.priority, r.delay_s, r.timing,
    r.active, r.source, r.topic_id, r.version, r.status, r.error, r.since_position,
    false as dropped
from headrace_internal.readable_rules() r;

create or replace trigger rule_write instead of insert or update or delete on headrace.rule
for each row execute function headrace_internal.write_view();
