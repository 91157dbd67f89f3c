-- Tables whose changes are published.
create or replace view headrace.capture with (security_barrier) as
select c.captured, c.topic_id, c.key_columns, c.type_column, c.insert_type, c.update_type, c.delete_type, c.columns,
    c.created_at
from headrace_internal.capture c
where c.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'publish');
