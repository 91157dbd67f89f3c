-- Schemas in the search path of sessions in which roles may create that do not own them: what such a role creates there may be called
-- by statements of others. Search paths: that of new sessions of this role, and those set for roles and databases.
with path as (
    select s.reset_val as schemas from pg_settings s where s.name = 'search_path'
    union
    select split_part(c.setting, '=', 2)
    from pg_db_role_setting r cross join lateral unnest(r.setconfig) c (setting)
    where c.setting like 'search_path=%%' and r.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
    union
    -- The default of PostgreSQL, of which nothing is recorded.
    select s.boot_val from pg_settings s where s.name = 'search_path'
), creator as (
    select n.nspname, case when a.grantee = 0 then 'PUBLIC' else a.grantee::regrole::text end as role
    from path p
    cross join lateral unnest(string_to_array(p.schemas, ',')) w (word)
    join pg_namespace n on n.nspname = trim(both ' "' from w.word)
    cross join lateral aclexplode(n.nspacl) a
    where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner
    group by n.nspname, a.grantee
)
select 'search path' as check, 'warning' as level,
    format('%%s may create functions in schema %%I, which is in the search path', string_agg(c.role, ', ' order by c.role), c.nspname) as message,
    format('run: revoke create on schema %%I from %%s; or take the schema out of the search path', c.nspname,
        string_agg(c.role, ', ' order by c.role)) as advice
from creator c
group by c.nspname
order by c.nspname;
