-- The outbox, for inserts by roles that may insert into it anyhow. It rejects the rows of all others, and shows them none: they
-- publish by headrace.publish. Publishers hold the right to insert here so that a statement of the library that finds no topic in
-- headrace.direct_topic inserts nothing and raises no error, also after SET ROLE: an error would abort the caller's transaction.
create or replace view headrace.direct_outbox with (security_barrier) as
select o.slot, o.topic_id, o.event_id, o.type, o.key, o.payload, o.headers, o.emitted_at, o.producer
from headrace_internal.outbox o
where has_table_privilege('headrace_internal.outbox'::regclass, 'insert')
with check option;
