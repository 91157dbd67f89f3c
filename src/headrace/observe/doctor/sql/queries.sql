-- name: consumers
-- Consumers with the number of events that the log keeps for one that no live node runs (relays have a check of their own), of stopped partitions,
-- of partitions that keep failing with an error of theirs, and of open dead letters.
-- A consumer of headrace itself retries what no user's code can have caused, so its first failure counts.
select t.namespace, t.topic, c.consumer,
    (select count(*) from headrace_internal.cursor u where u.consumer_id = c.consumer_id and u.state = 'stopped') as stopped,
    f.failing,
    (select count(*) from headrace_internal.dead_letter d where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind')) as dead_letters,
    f.error,
    case when c.consumer not like 'headrace.%%' and c.consumer not like 'relay.%%' and not exists (
            select from headrace_internal.node n
            where n.namespace = t.namespace and n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds'
                and n.consumers @> array[t.topic || '/' || c.consumer])
        -- A cursor of a quiet partition may be far behind the head, and keeps nothing.
        then (select h.position - min(n.position) + 1
            from headrace.log_head(t.topic_id) h
            cross join headrace_internal.cursor u
            cross join lateral (select case when u.partition >= 0
                then headrace_internal.next_position(t.topic_id, u.partition, u.position)
                when u.position < h.position then greatest(u.position, t.dropped_to) + 1 end) n (position)
            where u.consumer_id = c.consumer_id group by h.position) end as kept
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
cross join lateral (
    select count(*) as failing, split_part(rtrim(max(u.error), E'\n'), E'\n', case when c.consumer like 'headrace.%%' then 1 else -1 end) as error
    from headrace_internal.cursor u
    where u.consumer_id = c.consumer_id and u.state = 'running' and u.error is not null
        and u.attempts >= case when c.consumer like 'headrace.%%' then 1 else 3 end
) f
order by t.namespace, t.topic, c.consumer;

-- name: definitions
-- Rules or correlators that should be active but are not: invalid, or waiting for a compiler for too long.
-- Indexes: rule_version_pending, correlator_version_pending.
select d.check, case d.status when 'invalid' then 'problem' else 'warning' end as level,
    format('%%s/%%s ', d.namespace, d.name) || case d.status when 'invalid' then format('is invalid: %%s', split_part(d.error, E'\n', 1))
        else format('has waited %%s s to be compiled by a node', round(extract(epoch from headrace.clock() - d.written_at))) end as message,
    case d.status when 'invalid' then format('correct its %%s; see: headrace %%s show ''%%s'' --namespace %%s', d.text, rtrim(d.check, 's'),
            d.name, d.namespace)
        else 'run: headrace node run' end as advice
from (
    select 'rules' as check, 'condition' as text, r.namespace, r.rule as name, v.status, v.error, v.written_at
    from headrace_internal.rule r
    join headrace_internal.rule_version v on v.rule_id = r.rule_id and v.version = r.version
    union all
    select 'correlators', 'pattern', c.namespace, c.correlator, v.status, v.error, v.written_at
    from headrace_internal.correlator c
    join headrace_internal.correlator_version v on v.correlator_id = c.correlator_id and v.version = c.version
) d
where d.check = %(check)s
    and (d.status = 'invalid' or (d.status = 'pending' and d.written_at < headrace.clock() - make_interval(secs => %(pending_max_s)s)))
order by d.namespace, d.name;

-- name: erasures
-- Erasures that are not finished: archive files to be written again, tables whose old row versions VACUUM has not removed yet.
select 'erasures', 'warning', format('erasure %%s of topic %%s in namespace %%s is not finished in the archive', e.erasure_id, e.topic, e.namespace),
    format('run where the folder of the archive is: headrace topic erasures --finish --namespace %%s', e.namespace)
from headrace.erasure e
where e.archives_pending > 0
union all
select 'erasures', 'warning', format('%%s tables still hold old versions of rows of erasure %%s in namespace %%s', cardinality(e.tables_pending),
        e.erasure_id, e.namespace),
    format('run VACUUM as the owner of the tables: headrace topic erasures --finish --namespace %%s', e.namespace)
from headrace.erasure e
where e.tables_pending <> '{}'
order by 3;

-- name: extensions
-- Selects the optional extensions, with their versions where they are installed.
select w.name as check, 'info' as level, coalesce('version ' || e.extversion, 'not installed; headrace does its work itself') as message
from unnest(array['pg_cron', 'pg_partman']) with ordinality w (name, place)
left join pg_extension e on e.extname = w.name
order by w.place;

-- name: failures
-- What fails in the loops of the nodes, and events whose inline rules failed and wait to be evaluated after the log. The others go
-- on. Indexes: failure_pkey, inline_failure_topic.
select 'failures' as check, case when f.failures >= 3 then 'problem' else 'warning' end as level,
    format('%%s %%s%%s failed %%s times since %%s: %%s', f.kind, case when f.namespace = '' then '' else f.namespace || '/' end, f.name,
        f.failures, to_char(f.first_at, 'YYYY-MM-DD HH24:MI:SS'), split_part(f.error, E'\n', 1)) as message,
    format('correct the cause; it is tried again at %%s', to_char(f.retry_at, 'HH24:MI:SS')) as advice
from headrace_internal.failure f
union all
(select 'failures', 'warning',
    format('inline rules of %%s/%%s failed on %%s events since %%s: %%s', t.namespace, t.topic, count(*),
        to_char(min(f.failed_at), 'YYYY-MM-DD HH24:MI:SS'), split_part(max(f.error), E'\n', 1)),
    'correct the rules; a node with a sequencer evaluates them on these events after the log'
from headrace_internal.inline_failure f
join headrace_internal.topic t on t.topic_id = f.topic_id
group by t.namespace, t.topic)
order by 3;

-- name: grants
-- Rights that headrace_internal.secure() does not leave behind: functions and relations of ours that PUBLIC can use, and rights of a
-- namespace's roles on what is internal.
with right_of as (
    select p.oid::regprocedure::text as object, p.pronamespace as schema, a.grantee, a.privilege_type
    from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and a.grantee <> p.proowner
    union all
    select c.oid::regclass::text, c.relnamespace, a.grantee, a.privilege_type
    from pg_class c cross join lateral aclexplode(c.relacl) a
    where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and c.relkind in ('r', 'p', 'v', 'S')
        and a.grantee <> c.relowner
), wrong as (
    select case when r.grantee = 0 then 'PUBLIC' else r.grantee::regrole::text end as role, r.object, r.privilege_type
    from right_of r
    -- Publishers number rows of the outbox: see headrace_internal.apply_grants.
    where r.grantee = 0 or (r.schema = 'headrace_internal'::regnamespace and r.privilege_type <> 'EXECUTE'
        and (r.object, r.privilege_type) <> ('headrace_internal.outbox_id_seq', 'USAGE')
        and r.grantee in (select g.role from headrace_internal.namespace_grant g))
)
select 'grants' as check, 'problem' as level,
    format('%%s holds %%s rights that nobody should have, such as %%s on %%s', w.role, count(*),
        lower((array_agg(w.privilege_type order by w.object, w.privilege_type))[1]),
        (array_agg(w.object order by w.object, w.privilege_type))[1]) as message,
    'run: headrace migrate; it restores the rights' as advice
from wrong w
group by w.role
order by w.role;

-- name: indexes
-- Indexes of headrace that PostgreSQL does not use, because building them was interrupted.
select 'indexes' as check, 'problem' as level, format('%%s is invalid', i.indexrelid::regclass) as message,
    format('run: reindex index %%s', i.indexrelid::regclass) as advice
from pg_index i
join pg_class c on c.oid = i.indexrelid
where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and not (i.indisvalid and i.indisready)
order by 3;

-- name: jit
-- Functions of headrace whose queries the server may compile. They forbid plans (enable_seqscan and others), which gives a plan that
-- is used all the same a cost far above jit_above_cost; compiling it takes longer than running it. Nothing if the server has no compiler.
select 'jit' as check, 'warning' as level, format('%%s may be compiled on every call, which takes most of its time', p.oid::regprocedure) as message,
    format('run: alter function %%s set jit = off', p.oid::regprocedure) as advice
from pg_proc p
where p.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
    and exists (select from unnest(p.proconfig) setting where setting like 'enable%%=off') and 'jit=off' <> all (p.proconfig)
    and pg_jit_available()
order by 3;

-- name: log_time
-- Topics on the server's clock whose log has times in the future: the clock was ahead and has come back. Log time never goes back, so new
-- events get the newest time there is, and a timer that they start is due that much later. Index: log_position backwards, for each topic.
select 'log time' as check, 'warning' as level,
    format('the log time of topic %%s/%%s is ahead of the clock by %%s: new timers are due that much later',
        t.namespace, t.topic, justify_hours(date_trunc('second', a.ahead))) as message,
    format('synchronize the clock of the server, and wait until it passes %%s; if that is too long, publish to a new topic',
        to_char(headrace.clock() + a.ahead, 'YYYY-MM-DD HH24:MI:SSOF')) as advice
from headrace_internal.topic t
cross join lateral (
    select greatest(h.appended_at, t.timers_to) - headrace.clock() as ahead
    from headrace_internal.read_head(t.topic_id, t.clock, t.time_partition) h
) a
where t.clock = 'server' and a.ahead > make_interval(secs => %(ahead_max_s)s)
order by t.namespace, t.topic;

-- name: nodes
-- Nodes that were lost within the last day, one line per namespace, and how many connections the live ones may open here.
select 'nodes' as check, 'warning' as level,
    case when count(*) = 1 then
        format('%%s/%%s is lost: its last heartbeat was %%s s ago', n.namespace, min(n.name),
            round(extract(epoch from headrace.clock() - max(n.heartbeat_at))))
    else
        format('%%s: %%s nodes are lost, the last heartbeat of the newest was %%s s ago: %%s', n.namespace, count(*),
            round(extract(epoch from headrace.clock() - max(n.heartbeat_at))),
            array_to_string((array_agg(n.name order by n.heartbeat_at desc))[:3], ', ') || case when count(*) > 3 then ', …' else '' end)
    end as message,
    format('read their logs; other nodes take over their work; then run: headrace node forget --lost --namespace %%s', n.namespace) as advice
from headrace.node_state n
where n.state = 'lost' and n.heartbeat_at > headrace.clock() - interval '1 day'
group by n.namespace
union all
select 'connections', 'ok', format('%%s live nodes may open up to %%s: %%s', count(*), sum(n.connections),
        string_agg(format('%%s %%s', n.name, n.connections), ', ' order by n.name)), ''
from (
    select n.name, (n.metadata ->> 'connections')::integer as connections from headrace.node_state n
    where n.state = 'alive' and n.metadata ->> 'connections' ~ '^[0-9]{1,6}$'
) n
having count(*) > 0;

-- name: open_transactions
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

-- name: outbox
-- Selects the number of events in the outbox, counted up to a limit, and the age of the oldest.
-- The age comes from the event id if it is a version 7 uuid, because emitted_at is up to the publisher. Index: outbox_order.
select count(*) as waiting,
    coalesce(max(extract(epoch from clock_timestamp()) - case
        when substr(w.id_hex, 13, 1) = '7' then ('x' || left(w.id_hex, 12))::bit(48)::bigint / 1000.0
        else extract(epoch from w.emitted_at) end), 0)::double precision as oldest_s
from (
    select replace(o.event_id::text, '-', '') as id_hex, o.emitted_at from headrace_internal.outbox o limit %(limit)s
) w;

-- name: owner
-- Selects an owner that is a superuser while nodes run as other roles: what a node compiles is executed with the owner's rights.
select 'owner' as check, 'warning' as level,
    format('headrace belongs to the superuser %%s: whoever controls a node that runs as %%s becomes superuser', o.rolname,
        string_agg(r.rolname, ', ' order by r.rolname)) as message,
    'migrate as a role that is no superuser (see docs/security.md): alter the owner of the schemas headrace and headrace_internal and of'
        ' all they contain' as advice
from pg_namespace n
join pg_roles o on o.oid = n.nspowner and o.rolsuper
join headrace_internal.node_role d on true
join pg_roles r on r.oid = d.role and not r.rolsuper
where n.nspname = 'headrace_internal'
group by o.rolname;

-- name: queues
-- Selects the state of all action queues.
select n.namespace, s.due, s.dead, s.oldest_due_s
from headrace_internal.namespace n cross join lateral headrace.queue_state(n.namespace) s
order by n.namespace;

-- name: relays
-- Active relays that are invalid, disabled by their target, or run by no live node.
select 'relays' as check, case when r.status in ('invalid', 'disabled') then 'problem' else 'warning' end as level,
    format('%%s/%%s %%s', r.namespace, r.relay, case r.status
        when 'invalid' then 'is invalid: ' || coalesce(r.error, '')
        when 'disabled' then 'is disabled: ' || coalesce(r.error, '')
        else 'waits: no live node of its namespace runs it' end) as message,
    format(case r.status when 'invalid' then 'correct it; see: headrace relay show %%s --namespace %%s'
        when 'disabled' then 'when the target wants events again, run: headrace relay resume %%s --namespace %%s'
        else 'start a node of the namespace; see: headrace relay show %%s --namespace %%s' end, r.relay, r.namespace) as advice
from headrace_internal.relay r
where r.active and (r.status in ('invalid', 'disabled') or not exists (
    select from headrace_internal.node n
    where n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds' and n.namespace = r.namespace
        and n.consumers @> array[r.topic || '/relay.' || r.relay]))
order by r.namespace, r.relay;

-- name: replica_identity
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

-- name: schedules
-- Active schedules that fail or are invalid.
select 'schedules' as check, case when i.invalid then 'problem' else 'warning' end as level,
    format('%%s/%%s %%s: %%s', s.namespace, s.schedule, case when i.invalid then 'is invalid' else 'fails and is retried' end,
        coalesce(s.error, 'it never fires')) as message,
    format('correct it; see: headrace schedule show ''%%s'' --namespace %%s', s.schedule, s.namespace) as advice
from headrace_internal.schedule s cross join lateral (select s.replan_at = 'infinity' as invalid) i
where s.active and (s.error is not null or i.invalid)
order by s.namespace, s.schedule;

-- name: search_path
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

-- name: sequencers
-- Selects the nodes alive that run a sequencer, by name.
-- It does not read pg_stat_activity: a node's sessions are shared by its loops, so their last query says little.
select n.name
from headrace_internal.node n
where n.sequencer and n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds'
order by n.name;

-- name: server
-- Selects the settings and the clock of the server that headrace depends on.
select current_setting('server_version_num')::integer as version_num,
    current_setting('server_version') as version,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    extract(epoch from clock_timestamp())::double precision as clock_s,
    nullif(current_setting('headrace.clock_shift', true), '') as clock_shift,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer as connections_max,
    (select count(*) from pg_stat_activity a where a.backend_type = 'client backend') as connections,
    pg_notification_queue_usage() as notifications,
    -- Locks by the fast path take no place in the table.
    (select count(*) from pg_locks l where not l.fastpath) as locks,
    current_setting('max_locks_per_transaction')::integer
        * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) as locks_max;

-- name: time_partitions
-- Topics whose time partitions end soon: the log needs a partition for every appended_at to come.
select 'time partitions' as check, 'warning' as level,
    format('the last one of %%s/%%s ends at %%s', t.namespace, t.topic, to_char(t.log_until, 'YYYY-MM-DD HH24:MI')) as message,
    'run a node, or run: headrace topic maintain' as advice
from headrace_internal.topic t
where t.log_until < headrace.clock() + interval '1 day'
order by t.namespace, t.topic;

-- name: topic_shapes
-- Selects the topics of a shard, to compare with the other shards.
select t.namespace || '/' || t.topic as topic, t.partitions from headrace_internal.topic t order by 1;
