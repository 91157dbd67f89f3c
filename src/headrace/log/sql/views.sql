-- Topics.
create or replace view headrace.topic with (security_barrier) as
select t.topic_id, t.namespace, t.topic, t.partitions, t.time_partition, t.clock, t.retention, t.archive, t.dropped_to,
    t.log_until, t.asleep, t.timers_to, t.engine, t.created_at
from headrace_internal.topic t
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');

-- Committed events that are not yet sequenced. A role without the level consume sees that they wait, not what they say.
create or replace view headrace.outbox with (security_barrier) as
select o.id, o.topic_id, o.event_id, o.emitted_at,
    case when k.consumes then o.type end as type,
    case when k.consumes then o.key end as key,
    case when k.consumes then o.payload end as payload,
    case when k.consumes then o.headers end as headers,
    case when k.consumes then o.producer end as producer
from headrace_internal.outbox o
join (
    select t.topic_id, bool_or(t.level = 'consume') as consumes from headrace_internal.caller_topic t group by t.topic_id
) k on k.topic_id = o.topic_id;

-- Publishes by a plain INSERT, from any language: one view for each table of the outbox, headrace.event_0 to event_2. The one whose turn
-- it is, see headrace.outbox_slot, should be named; another one only delays the truncation of its table. The rule turns the INSERT into an
-- INSERT … SELECT with the look-up of the topic. The view shows no rows. headrace.publish and the library use it too.
-- Everything is checked, by one condition: for a role that may write to the outbox, a topic that has neither schemas nor inline
-- rules, and a small, ordinary event it is enough. 257 bytes with the type twice hold neither a type of 201 bytes nor 129 levels nor 309 digits. For
-- all else it calls headrace_internal.admit_event, which raises the errors of headrace.publish, also for a role without the level. With
-- missing_ok an unknown topic inserts nothing and raises no error. With is_checked the limits are not checked; that is believed only to
-- roles that may write to the outbox anyway. What the user writes is evaluated once, before the topic is read, by the first subquery: "offset 0"
-- keeps it from being merged into the condition, where a function of the user would be called for each topic. In the second one it keeps the
-- planner from any join that would change the order of several rows, and numbers are given in that order.
-- Locks nothing. Index: topic_name_unique.
create or replace view headrace.event_0 as
select null::text as topic, null::text as type, null::jsonb as payload, null::text as key, null::jsonb as headers, null::uuid as event_id,
    null::timestamptz as emitted_at, null::text as producer, null::text as namespace, null::boolean as missing_ok,
    null::boolean as is_checked, null::bigint as schemas_digest
where false;

-- As headrace.event_0, for table 1 of the outbox.
create or replace view headrace.event_1 as
select null::text as topic, null::text as type, null::jsonb as payload, null::text as key, null::jsonb as headers, null::uuid as event_id,
    null::timestamptz as emitted_at, null::text as producer, null::text as namespace, null::boolean as missing_ok,
    null::boolean as is_checked, null::bigint as schemas_digest
where false;

-- As headrace.event_0, for table 2 of the outbox.
create or replace view headrace.event_2 as
select null::text as topic, null::text as type, null::jsonb as payload, null::text as key, null::jsonb as headers, null::uuid as event_id,
    null::timestamptz as emitted_at, null::text as producer, null::text as namespace, null::boolean as missing_ok,
    null::boolean as is_checked, null::bigint as schemas_digest
where false;

-- The rules of the three views.
do $do$
begin
    for v_slot in 0 .. 2 loop
        execute format('alter view headrace.event_%1$s alter column event_id set default headrace.uuid_v7()', v_slot);
        execute format($sql$
            create or replace rule event_%1$s_insert as on insert to headrace.event_%1$s do instead
            insert into headrace_internal.outbox_%1$s (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
            select t.topic_id, n.event_id, n.type, n.key, n.payload, coalesce(n.headers, '{}'), coalesce(n.emitted_at, headrace.clock()), n.producer
            from (
                select new.topic as topic, new.type as type, new.payload as payload, new.key as key, new.headers as headers,
                    new.event_id as event_id, new.emitted_at as emitted_at, new.producer as producer,
                    new.namespace as namespace
                offset 0) n
            left join lateral (
                select o.topic_id, o.asleep, o.checks_payloads, o.has_inline_rules
                from headrace_internal.topic o where o.namespace = headrace.current_namespace(n.namespace) and o.topic = n.topic
                offset 0) t on true
            where case when has_table_privilege('headrace_internal.outbox'::regclass, 'insert') and t.topic_id is not null
                    and not (t.checks_payloads or t.has_inline_rules)
                    and (new.is_checked or n.payload is not null and n.headers is null and n.emitted_at is null
                        and octet_length(concat(n.type, n.type, n.payload, n.key, n.producer)) <= 257 and n.type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$'
                        and (n.key = '') is not true)
                then not t.asleep or headrace_internal.wake_sequencer(t.topic_id)
                else headrace_internal.admit_event(t.topic_id, n.namespace, n.topic, n.event_id, n.type, n.key, n.payload, n.headers,
                    n.emitted_at, n.producer, new.schemas_digest, new.is_checked, new.missing_ok) end
            $sql$, v_slot);
    end loop;
end
$do$;

-- Tables whose changes are published.
create or replace view headrace.capture with (security_barrier) as
select c.captured, c.topic_id, c.key_columns, c.type_column, c.insert_type, c.update_type, c.delete_type, c.columns,
    c.created_at
from headrace_internal.capture c
where c.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'publish');

-- The log: every event of a topic, by position.
create or replace view headrace.log with (security_barrier) as
select l.position, l.appended_at, l.emitted_at, l.topic_id, l.partition, l.event_id, l.type, l.key, l.payload,
    l.headers, l.producer
from headrace_internal.log l
where l.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

-- Erasures of keys, with the number of topics whose archive files still have to be written again, and the tables that VACUUM still has to clean.
create or replace view headrace.erasure with (security_barrier) as
select e.erasure_id, e.namespace, e.topic, e.fields, e.new_key, e.erased_by, e.erased_at, e.row_counts,
    (select count(*) from headrace_internal.erasure_pending p where p.erasure_id = e.erasure_id) as archives_pending, e.tables as tables_pending
from headrace_internal.erasure e
where e.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'admin');
