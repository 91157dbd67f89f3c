-- Arms one step, and counts from 0.
with gone as (delete from headrace_prove.armed), count as (select setval('headrace_prove.hits', 1, false))
insert into headrace_prove.armed (step, hit) select %(step)s, %(hit)s from count;
