-- Erasures of keys, with the number of topics whose archive files still have to be written again, and the tables that VACUUM still has to clean.
create or replace view headrace.erasure with (security_barrier) as
select e.erasure_id, e.namespace, e.topic, e.fields, e.new_key, e.erased_by, e.erased_at, e.row_counts,
    (select count(*) from headrace_internal.erasure_pending p where p.erasure_id = e.erasure_id) as archives_pending, e.tables as tables_pending
from headrace_internal.erasure e
where e.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');
