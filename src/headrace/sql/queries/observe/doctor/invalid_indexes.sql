-- Indexes of headrace that PostgreSQL does not use, because building them was interrupted.
select i.indexrelid::regclass::text as index
from pg_index i
join pg_class c on c.oid = i.indexrelid
where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and not (i.indisvalid and i.indisready)
order by 1;
