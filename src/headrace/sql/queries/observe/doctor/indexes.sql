-- Indexes of headrace that PostgreSQL does not use, because building them was interrupted.
select 'indexes' as check, 'problem' as level, format('%%s is invalid', i.indexrelid::regclass) as message,
    format('run: reindex index %%s', i.indexrelid::regclass) as advice
from pg_index i
join pg_class c on c.oid = i.indexrelid
where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and not (i.indisvalid and i.indisready)
order by 3;
