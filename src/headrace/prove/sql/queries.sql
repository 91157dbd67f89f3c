-- name: action_results
-- Selects how actions of the workload ended, without those whose data is erased. A hostile tenant may use the same ids in its namespace.
select r.action_id, r.action, r.outcome, r.attempts from headrace_internal.action_result r
where r.namespace = 'default' and r.action <> 'greet';

-- name: arm_failpoint
-- Arms the failpoint before one statement, and resets its counter.
with old as (delete from headrace_prove.armed), counter as (select setval('headrace_prove.hits', 1, false))
insert into headrace_prove.armed (statement, hit) select %(statement)s, %(hit)s from counter;

-- name: attackable_functions
-- Functions of our schemas with their parameters, and whether this role may execute them.
select n.nspname, p.proname, coalesce(p.proargnames, '{}'), p.pronargdefaults, p.prokind = 'p',
       array(select format_type(t.oid, null) from unnest(p.proargtypes) with ordinality a (oid, place) join pg_type t on t.oid = a.oid
             order by place),
       p.proargtypes::oid[]::bigint[],
       has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('headrace', 'headrace_internal') and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  and p.prokind in ('f', 'p')
order by n.nspname, p.proname, p.oid::regprocedure::text

-- name: attackable_relations
-- Tables and views of our schemas and the queue's with their columns, and whether this role may read them.
select n.nspname, c.relname,
       array(select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
       array(select format_type(a.atttypid, null) from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
       has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind in ('r', 'p', 'v')
order by n.nspname, c.relname

-- name: bug_local_lease
-- Seeded bug: a second claim of retried actions, whose clock is a minute ahead; node-2 calls it. What node-1 handles for the first time
-- is held until node-2 has claimed and acked it, for 10 s at most and three times, so that the second holder does not depend on chance.
do $$
begin
    execute replace(replace(pg_get_functiondef('headrace.claim_retried_action'::regproc), 'claim_retried_action', 'claim_retried_ahead'),
        'q.vt <= headrace.clock()', 'q.vt <= headrace.clock() + interval ''1 minute''');
end
$$;
create sequence headrace_prove.held;
create or replace function headrace_prove.pause_action(p_action text, p_action_id uuid, p_attempt integer, p_node text) returns void
language plpgsql volatile
as $$
begin
    for v_round in 1 .. case when p_node like 'node-1.%' and p_attempt = 1 and nextval('headrace_prove.held') <= 3 then 200 else 1 end loop
        perform pg_sleep(0.05);
        exit when not exists (select from pgmq.q_headrace q where (q.message ->> 'id')::uuid = p_action_id);
    end loop;
end
$$;

-- name: bug_loose_schedule
-- Seeded bug: two nodes may record one tick twice, and the ids of its events differ from session to session. A node that fires a tick
-- waits for the other node to fire it too, for 2 s at most, so that this does not depend on chance.
alter table headrace_internal.schedule_tick drop constraint schedule_tick_once;
create or replace function headrace_internal.schedule_event_id(p_uid uuid, p_tick_at timestamptz) returns uuid
language sql volatile
as $$
    select md5(concat_ws(':', p_uid, extract(epoch from p_tick_at), pg_backend_pid()))::uuid
$$;
create function headrace_prove.wait_for_other_node(p_tick_at timestamptz) returns void
language plpgsql volatile
as $$
declare
    v_tick integer := extract(epoch from p_tick_at)::bigint % 1000000;
begin
    perform pg_advisory_xact_lock_shared(1886547830, v_tick);
    for v_round in 1 .. 40 loop
        exit when 2 <= (select count(*) from pg_locks l
            where l.locktype = 'advisory' and l.classid = 1886547830 and l.objid = v_tick::oid);
        perform pg_sleep(0.05);
    end loop;
end
$$;

-- name: bug_serial_cursor
-- Seeded bug: the newest serial id that a sequencer has read, per topic. An event that commits later with a smaller id is skipped.
create table headrace_prove.serial (
    topic_id integer not null primary key,
    before   bigint  not null default 0,
    upto     bigint  not null default 0
);
create function headrace_prove.move_serial(p_topic_id integer, p_bound bigint) returns void
language sql volatile
as $$
    insert into headrace_prove.serial as s (topic_id, upto)
    select p_topic_id, coalesce(p_bound, max(o.id), 0) from headrace_internal.outbox o where o.topic_id = p_topic_id
    on conflict (topic_id) do update set before = s.upto, upto = greatest(s.upto, excluded.upto)
$$;

-- name: consumed_events
-- What handlers of consumers wrote, in the order of writing.
select c.seq, c.consumer, c.partition, c.position, c.event_id from headrace_prove.consumed c order by c.seq;

-- name: create_copy
-- Creates the table that a relay to another PostgreSQL fills.
create table public.orders_copy (
    seq bigint generated always as identity primary key,
    partition int not null,
    position bigint not null,
    event_id text not null
);

-- name: dead_letters
-- Dead letters of consumers.
select c.consumer, d.position, d.event_id, d.type, d.key, d.state, d.attempts
from headrace_internal.dead_letter d join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace_internal.topic t on t.topic_id = c.topic_id and t.namespace = 'default'
order by d.position;

-- name: effects
-- What handlers of actions wrote, in the order of writing.
select e.seq, e.action_id, e.action, e.attempt from headrace_prove.effect e order by e.seq;

-- name: failpoint
-- Creates the failpoint inside functions: the session that reaches the armed statement for the n-th time dies. The counter is a sequence,
-- because a sequence does not roll back.
create table if not exists headrace_prove.armed (statement integer not null, hit bigint not null);
create sequence if not exists headrace_prove.hits;
create or replace function headrace_prove.hit(p_statement integer) returns boolean
language plpgsql volatile
as $$
begin
    if exists (select from headrace_prove.armed a where a.statement = p_statement)
        and nextval('headrace_prove.hits') = (select a.hit from headrace_prove.armed a) then
        perform pg_terminate_backend(pg_backend_pid());
        perform pg_sleep(10);
    end if;
    return false;
end
$$;

-- name: failpoint_reached
-- True once the armed failpoint has been reached often enough.
select h.is_called and h.last_value >= a.hit from headrace_prove.hits h cross join headrace_prove.armed a;

-- name: firings
-- Selects the firings of rules, without the one whose data is erased.
select v.rule, t.topic, f.position, f.event_id, f.action_id
from headrace_internal.firing f
join headrace_internal.rule_version v on v.version_id = f.rule_version_id
join headrace_internal.topic t on t.topic_id = f.topic_id
where t.namespace = 'default' and v.rule <> 'greet';

-- name: has_instance
-- Selects whether a correlator keeps a state of a key. Index: correlator_instance_pkey.
select exists (
    select from headrace_internal.correlator_instance i
    join headrace_internal.correlator c on c.correlator_id = i.correlator_id
    where c.correlator = 'person' and i.key = %(key)s);

-- name: is_running
-- Selects whether everything has been compiled and every consumer, rules and correlators included, has handled events, if its topic has any; and
-- whether a pipeline has. Indexes: log_position backwards, cursor_pkey.
select not exists (select from headrace_internal.correlator c where c.status = 'pending' and c.namespace = 'default')
    and exists (select from headrace_prove.consumed c where c.consumer = 'ledger')
    and not exists (
        select from headrace_internal.consumer c
        join headrace_internal.topic t on t.topic_id = c.topic_id and t.engine = 'database' and t.namespace = 'default'
        cross join lateral headrace.log_head(t.topic_id) h
        where h.position > 0
            and not exists (select from headrace_internal.cursor u where u.consumer_id = c.consumer_id and u.position > 0)) as consumes,
    exists (select from headrace_internal.pipeline_batch) as has_pipeline_batch;

-- name: known_identifiers
-- Selects columns and values of a namespace that another role could guess or have seen: names, ids, and some ids of events and actions.
with topic as (
    select t.topic_id, t.topic from headrace_internal.topic t where t.namespace = %(namespace)s
), consumer as (
    select c.consumer_id, c.consumer from headrace_internal.consumer c join topic t on t.topic_id = c.topic_id
)
select i.name, v.value
from (values
    ('topic_id', array(select t.topic_id::text from topic t)),
    ('topic', array(select t.topic from topic t)),
    ('consumer_id', array(select c.consumer_id::text from consumer c)),
    ('consumer', array(select c.consumer from consumer c)),
    ('dead_letter_id', array(
        select d.dead_letter_id::text from headrace_internal.dead_letter d join consumer c on c.consumer_id = d.consumer_id limit 20)),
    ('schedule_id', array(select s.schedule_id::text from headrace_internal.schedule s where s.namespace = %(namespace)s)),
    ('schedule', array(select s.schedule from headrace_internal.schedule s where s.namespace = %(namespace)s)),
    ('rule', array(select r.rule from headrace_internal.rule r where r.namespace = %(namespace)s)),
    ('relay_id', array(select r.relay_id::text from headrace_internal.relay r where r.namespace = %(namespace)s)),
    ('relay', array(select r.relay from headrace_internal.relay r where r.namespace = %(namespace)s)),
    ('token_id', array(select a.token_id::text from headrace_internal.access_token a where a.namespace = %(namespace)s)),
    ('hook', array(select h.hook from headrace_internal.hook h where h.namespace = %(namespace)s)),
    ('erasure_id', array(select e.erasure_id::text from headrace_internal.erasure e where e.namespace = %(namespace)s limit 20)),
    ('node_id', array(select n.node_id::text from headrace_internal.node n where n.namespace = %(namespace)s limit 20)),
    ('event_id', array(select l.event_id::text from headrace_internal.log l join topic t on t.topic_id = l.topic_id limit 20)),
    ('action_id', array(select a.action_id::text from headrace_internal.attempt a where a.namespace = %(namespace)s limit 20))
) i (name, found)
cross join lateral unnest(i.found) with ordinality v (value, place)
order by i.name, v.place

-- name: outputs
-- Selects the outputs of correlators, without the one whose data is erased.
select h.correlator, h.key, h.token, h.output_at, h.position, h.becomes, h.output_id from headrace.correlation_history h
where h.namespace = 'default' and h.correlator <> 'person';

-- name: pipeline_position
-- Selects the position of the pipeline that a process runs; no row before its first batch.
select s.position from headrace.pipeline_state s where s.process like '%%:' || %(pid)s;

-- name: pipeline_totals
-- Adds up the batches in the ledger of a topic's pipeline; no row if it never had one. Index: pipeline_pkey.
select p.batches, coalesce(b.upto, 0) as upto, p.firings, p.outputs
from headrace_internal.pipeline p
join headrace_internal.topic t on t.topic_id = p.topic_id
left join lateral (select max(b.upto) as upto from headrace_internal.pipeline_batch b where b.topic_id = p.topic_id) b on true
where t.topic = %(topic)s;

-- name: read_copy
-- What a relay has inserted, in the order of writing.
select c.partition, c.position, c.event_id
from public.orders_copy c
order by c.seq;

-- name: read_relayed_topic
-- What a relay has published in another headrace, in the order of its log. The payloads have the place in the first log.
-- Index: log (topic_id, position).
select (l.payload ->> 'partition')::int, (l.payload ->> 'position')::bigint, l.event_id::text
from headrace.log l
join headrace.topic t on t.topic_id = l.topic_id
where t.topic = %(topic)s
order by l.position;

-- name: record_consumed
-- Records the events that a handler of a consumer got, in their order, in one statement.
insert into headrace_prove.consumed (consumer, partition, position, event_id, node)
select %(consumer)s, e.partition, e.position, e.event_id, %(node)s
from unnest(%(partitions)s::integer[], %(positions)s::bigint[], %(event_ids)s::uuid[])
    with ordinality as e (partition, position, event_id, n)
order by e.n;

-- name: redrive
-- Redrives the dead letters of an action; from now on its handler succeeds with them.
with letter as (
    select d.action_id from headrace.action_dead_letters(p_action => %(action)s) d
), mended as (
    insert into headrace_prove.mended (action_id) select l.action_id from letter l on conflict do nothing
)
select headrace.redrive_actions(p_action => %(action)s) where exists (select from letter);

-- name: sample
-- Progress of the workload. `consumed` counts the consumer of all orders, which should keep up with them; other consumers are slow
-- on purpose. Indexes: log_position backwards, the keys of the checker's tables, log_partition for the lag.
select
    coalesce((select sum(h.position) from headrace_internal.topic t cross join lateral headrace.log_head(t.topic_id) h), 0) as logged,
    orders.head - ledger.lag as consumed,
    coalesce((select max(e.seq) from headrace_prove.effect e), 0) as effects,
    ledger.lag,
    (select q.due + q.in_flight + q.delayed + q.retrying + q.held from headrace.queue_state() q) as queue
from (
    select coalesce(sum(h.position), 0) as head
    from headrace_internal.topic t cross join lateral headrace.log_head(t.topic_id) h
    where t.topic = 'orders'
) orders
cross join (
    select coalesce(sum(l.lag_events), 0) as lag from headrace.consumer_lag l where l.consumer = 'ledger'
) ledger;

-- name: set_pause
-- Makes the handlers of an action slow.
insert into headrace_prove.switch (name, pause_s) values (%(name)s, %(pause_s)s)
on conflict (name) do update set pause_s = greatest(headrace_prove.switch.pause_s, excluded.pause_s);

-- name: stage_batch
-- Stages the rows of one batch, as a task of Spark's sink does.
insert into headrace_internal.spark_stage (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, producer, priority)
select headrace.current_namespace(), %(query)s, %(batch)s, %(token)s, r.place, %(topic)s, r.type, r.key, r.payload::jsonb, '{}',
    headrace.uuid_v7(), 'sink', 0
from unnest(%(types)s::text[], %(keys)s::text[], %(payloads)s::text[]) with ordinality r (type, key, payload, place);

-- name: tables
-- Creates the checker's own tables, as an application has them: what handlers write through their transactions. They have no constraint
-- that would hide a repetition; the identity column only gives the order of writing.
create schema headrace_prove;
create table headrace_prove.consumed (
    seq       bigint  not null generated always as identity primary key,
    consumer  text    not null,
    partition integer not null,
    position  bigint  not null,
    event_id  uuid    not null,
    node      text    not null
);
create table headrace_prove.effect (
    seq       bigint  not null generated always as identity primary key,
    action_id uuid    not null,
    action    text    not null,
    attempt   integer not null,
    node      text    not null
);
-- Handlers that a fault or a seeded bug slows down.
create table headrace_prove.switch (
    name    text             not null primary key,
    pause_s double precision not null
);
-- Actions that fail until they are here.
create table headrace_prove.mended (action_id uuid not null primary key);
-- How long a handler of an action takes. A seeded bug may put another function in its place, which waits for what the bug leads to.
create function headrace_prove.pause_action(p_action text, p_action_id uuid, p_attempt integer, p_node text) returns void
language sql volatile
as $$
    select pg_sleep(0.03 + coalesce((select s.pause_s from headrace_prove.switch s where s.name = p_action), 0))
$$;

-- name: tables_of_headrace
-- Selects all tables of headrace and of the queues, partitions one by one.
select n.nspname, c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind = 'r'
order by 1, 2;

-- name: ticks
-- Selects the past ticks of the schedule.
select k.tick_at, k.outcome, k.event_id
from headrace_internal.schedule_tick k join headrace_internal.schedule s on s.schedule_id = k.schedule_id
where s.schedule = %(schedule)s order by k.tick_at;

-- name: ticks_due
-- Selects how many ticks are due and have not fired.
select count(*) from headrace_internal.schedule_due d
join headrace_internal.schedule s on s.schedule_id = d.schedule_id and s.active
where d.tick_at <= headrace.clock();

-- name: unfinished
-- Selects the work that is still open, by kind. What a hostile tenant leaves in its namespace is nobody's work.
select 'events in the outbox' as what, count(*) as count from headrace_internal.outbox o
join headrace_internal.topic t on t.topic_id = o.topic_id and t.namespace = 'default'
union all
select 'events behind ' || l.consumer, sum(l.lag_events) from headrace.consumer_lag l where l.namespace = 'default' group by l.consumer
union all
select 'actions in the queue', q.due + q.in_flight + q.delayed + q.retrying + q.held from headrace.queue_state() q
union all
select 'timers running', count(*) from headrace_internal.correlator_instance i
join headrace_internal.correlator c on c.correlator_id = i.correlator_id and c.namespace = 'default'
where i.deadline is not null
union all
select 'consumers stopped', count(*) from headrace_internal.cursor u
join headrace_internal.consumer c on c.consumer_id = u.consumer_id
join headrace_internal.topic t on t.topic_id = c.topic_id and t.namespace = 'default'
where u.state = 'stopped'
union all
select 'dead letters to redrive', count(*) from headrace.action_dead_letters(p_action => 'mend');
