-- The optional extensions, with their versions where they are installed.
select w.name as check, 'info' as level, coalesce('version ' || e.extversion, 'not installed; headrace does its work itself') as message
from unnest(array['pg_cron', 'pg_partman']) with ordinality w (name, place)
left join pg_extension e on e.extname = w.name
order by w.place;
