-- Arms the failpoint before one statement, and resets its counter.
with old as (delete from headrace_prove.armed), counter as (select setval('headrace_prove.hits', 1, false))
insert into headrace_prove.armed (statement, hit) select %(statement)s, %(hit)s from counter;
