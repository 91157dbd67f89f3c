-- Tables of ours and of the queues from which PostgreSQL deletes nothing while a publication publishes them: they have neither a primary
-- key nor another replica identity. Unlogged tables are never published.
select 'replica identity' as check, 'problem' as level,
    format('%%s has no replica identity: deleting from it fails while a publication publishes it', c.oid::regclass) as message,
    format('run as its owner: alter table %%s replica identity %%s', c.oid::regclass, coalesce('using index ' || u.name, 'full')) as advice
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
    select min(x.relname) as name
    from pg_index i join pg_class x on x.oid = i.indexrelid
    where i.indrelid = c.oid and i.indisunique and i.indpred is null and i.indexprs is null and not exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attnum = any (i.indkey) and not a.attnotnull)
) u on true
where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind = 'r' and c.relpersistence = 'p' and c.relreplident <> 'f'
    and not exists (select from pg_index i where i.indrelid = c.oid and (i.indisreplident or i.indisprimary and c.relreplident = 'd'))
    and exists (select from pg_publication p where p.pubupdate or p.pubdelete)
order by 3;
