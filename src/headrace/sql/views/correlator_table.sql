-- Compiled tables of correlators.
create or replace view headrace.correlator_table with (security_barrier) as
select t.correlator_id, t.version_id, t.consumer_id, t.compiled, t.simple, t.halted, t.symbols, t.rows, t.marks, t.idle,
    t.tokens, t.forget_from
from headrace_internal.correlator_table t
where t.correlator_id in (
    select c.correlator_id from headrace_internal.correlator c
    join headrace_internal.caller_level k on k.namespace = c.namespace and k.level = 'consume');
