-- The pg_cron jobs of one database's schedules. Run it in pg_cron's database.
select j.jobid, j.jobname, j.schedule from cron.job j where starts_with(j.jobname, %(prefix)s) and j.database = %(database)s;
