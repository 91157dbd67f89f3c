-- Which of the extensions that headrace uses where they are installed are there.
select w.name, e.extversion as version
from unnest(array['pg_cron', 'pg_partman']) with ordinality w (name, place)
left join pg_extension e on e.extname = w.name
order by w.place;
