-- Makes a schedule's pg_cron job, or changes when it comes. Run in pg_cron's own database.
select cron.schedule_in_database(%(name)s, %(minutes)s,
    format('select headrace.run_schedule(%%s)', %(schedule_id)s::integer), %(database)s);
