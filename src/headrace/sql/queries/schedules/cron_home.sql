-- The database of pg_cron (null if it is not loaded), its time zone, and the name of this database.
select nullif(current_setting('cron.database_name', true), '') as home,
    coalesce(nullif(current_setting('cron.timezone', true), ''), 'GMT') as zone, current_database()::text as database;
