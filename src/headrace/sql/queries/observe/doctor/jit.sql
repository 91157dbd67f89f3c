-- Functions of headrace whose queries the server may compile. They forbid plans (enable_seqscan and others), which gives a plan that
-- is used all the same a cost far above jit_above_cost; compiling it takes longer than running it. Nothing if the server has no compiler.
select 'jit' as check, 'warning' as level, format('%%s may be compiled on every call, which takes most of its time', p.oid::regprocedure) as message,
    format('run: alter function %%s set jit = off', p.oid::regprocedure) as advice
from pg_proc p
where p.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
    and exists (select from unnest(p.proconfig) setting where setting like 'enable%%=off') and 'jit=off' <> all (p.proconfig)
    and pg_jit_available()
order by 3;
