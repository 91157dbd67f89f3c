-- Sessions and prepared transactions with an old snapshot, which keeps vacuum from cleaning up.
select format('session %%s (%%s, %%s)', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'), a.state) as holder,
    extract(epoch from clock_timestamp() - a.xact_start)::double precision as age_s,
    format('end it, or run: select pg_terminate_backend(%%s)', a.pid) as advice
from pg_stat_activity a
where a.pid <> pg_backend_pid() and coalesce(a.backend_xmin, a.backend_xid) is not null and a.backend_type = 'client backend'
    and a.xact_start < clock_timestamp() - make_interval(secs => %(older_s)s)
union all
select format('prepared transaction %%s', p.gid), extract(epoch from clock_timestamp() - p.prepared)::double precision,
    format('run: commit prepared %%1$L, or: rollback prepared %%1$L', p.gid)
from pg_prepared_xacts p
where p.prepared < clock_timestamp() - make_interval(secs => %(older_s)s)
order by 2 desc;
