-- Sessions and prepared transactions with an old snapshot, which keeps vacuum from cleaning up.
select 'open transactions' as check, 'warning' as level,
    format('%%s has been open for %%s s and blocks vacuum', h.holder, round(extract(epoch from clock_timestamp() - h.since))) as message,
    h.advice
from (
    select format('session %%s (%%s, %%s)', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'), a.state) as holder,
        a.xact_start as since, format('end it, or run: select pg_terminate_backend(%%s)', a.pid) as advice
    from pg_stat_activity a
    where a.pid <> pg_backend_pid() and coalesce(a.backend_xmin, a.backend_xid) is not null and a.backend_type = 'client backend'
    union all
    select format('prepared transaction %%s', p.gid), p.prepared, format('run: commit prepared %%1$L, or: rollback prepared %%1$L', p.gid)
    from pg_prepared_xacts p
) h
where h.since < clock_timestamp() - make_interval(secs => %(transaction_max_s)s)
order by h.since;
