-- name: alter_namespace
-- Sets what happens to rules with names that are not registered.
update headrace_internal.namespace n set unknown_names = %(unknown_names)s where n.namespace = %(namespace)s;

-- name: applied_migrations
-- Selects the applied steps, with the checksums of their texts.
select name, checksum from headrace_internal.migration;

-- name: bootstrap
-- Creates what the migrator itself needs. Runs before every migration and changes nothing that exists.
create schema if not exists headrace;
create schema if not exists headrace_internal;
create table if not exists headrace_internal.migration (
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default statement_timestamp(),
    constraint migration_pkey primary key (name)
);
create table if not exists headrace_internal.release (
    release     text        not null,
    -- The oldest release whose nodes can run on the schema of this one.
    oldest_node text        not null,
    migrated_at timestamptz not null default statement_timestamp(),
    constraint release_pkey primary key (release)
);

-- name: configure
-- Sets settings of the session; limits unless the address sets them; defaults only where nobody has set a value: the address, the
-- role, the database, the server. Everything is qualified: this runs under whatever search_path the database has.
select pg_catalog.set_config(setting.key, setting.value, false)
from pg_catalog.json_each_text(%(settings)s::pg_catalog.json) setting
union all
select pg_catalog.set_config(setting.key, setting.value, false)
from pg_catalog.json_each_text(%(limits)s::pg_catalog.json) setting
join pg_catalog.pg_settings s on s.name operator(pg_catalog.=) setting.key
where s.source operator(pg_catalog.<>) 'client'
union all
select pg_catalog.set_config(setting.key, setting.value, false)
from pg_catalog.json_each_text(%(defaults)s::pg_catalog.json) setting
join pg_catalog.pg_settings s on s.name operator(pg_catalog.=) setting.key
where s.source operator(pg_catalog.=) 'default';

-- name: grants
-- Who may do what, by namespace and role, without dropped roles.
select r.rolname::text as role, g.namespace, g.level, g.granted_at
from headrace.namespace_grant g
join pg_roles r on r.oid = g.role
where %(namespace)s::text is null or g.namespace = %(namespace)s
order by g.namespace, r.rolname, g.level;

-- name: namespaces
-- Selects the namespaces that the current role may see, with the number of topics and of roles with a grant.
select n.namespace, n.created_at,
    (select count(*) from headrace.topic t where t.namespace = n.namespace) as topics,
    (select count(distinct g.role) from headrace.namespace_grant g where g.namespace = n.namespace) as roles,
    n.unknown_names
from headrace.namespace n
order by n.namespace;

-- name: record_migration
-- Records an applied step, again if the text of its file has changed.
insert into headrace_internal.migration (name, checksum) values (%(name)s, %(checksum)s)
on conflict on constraint migration_pkey do update set checksum = excluded.checksum, applied_at = statement_timestamp();

-- name: record_release
-- Records that a release has migrated the database.
insert into headrace_internal.release (release, oldest_node) values (%(release)s, %(oldest_node)s)
on conflict on constraint release_pkey do update set oldest_node = excluded.oldest_node, migrated_at = statement_timestamp();

-- name: stored
-- Selects how much is stored in all namespaces: topics, actions that wait or are in flight, and dead letters.
select (select count(*) from headrace_internal.topic), coalesce(sum(q.queue_length), 0), coalesce(sum(d.queue_length), 0)
from headrace_internal.namespace n
cross join lateral pgmq.metrics(headrace.queue_name(n.namespace)) q
cross join lateral pgmq.metrics(headrace_internal.dead_letter_queue(headrace_internal.queue_of(n.namespace))) d;

-- name: uninstall
-- Drops the queues, then both schemas with all that is in them, and the triggers that call their functions.
-- Locks: every table of headrace, access exclusive.
do $$
begin
    perform pgmq.drop_queue(q.name)
    from headrace_internal.namespace n
    cross join unnest(array[headrace.queue_name(n.namespace), headrace_internal.dead_letter_queue(headrace_internal.queue_of(n.namespace))]) q (name);
    drop schema headrace, headrace_internal cascade;
end
$$;
