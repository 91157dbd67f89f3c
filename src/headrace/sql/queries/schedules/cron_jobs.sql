-- The jobs pg_cron has for one database's schedules. Run in pg_cron's own database.
select j.jobid, j.jobname, j.schedule from cron.job j where starts_with(j.jobname, %(prefix)s) and j.database = %(database)s;
