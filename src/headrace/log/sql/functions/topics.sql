-- Raises HR101 with the topics of the namespace; without p_list it names none, for a caller who must not see them.
-- Calls: current_namespace.
create or replace function headrace_internal.raise_unknown_topic(p_topic text, p_namespace text, p_list boolean default true) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_known     text;
begin
    select string_agg(t.topic, ', ' order by t.topic) into v_known
    from (select topic from headrace_internal.topic where p_list and namespace = v_namespace order by topic limit 10) t;
    raise exception 'there is no topic "%" in namespace "%"', p_topic, v_namespace
        using errcode = 'HR101',
            hint = format('Create it: select headrace.create_topic(%L). Known topics: %s.', p_topic, coalesce(v_known, 'none'));
end
$$;

-- Returns the id of a topic; raises HR101 if it does not exist.
-- Calls: raise_unknown_topic.
create or replace function headrace.topic_id(
    p_topic text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace, p_topic);
    v_topic_id  integer;
begin
    select t.topic_id into v_topic_id
    from headrace_internal.topic t where t.namespace = v_namespace and t.topic = p_topic;
    if v_topic_id is null then
        perform headrace_internal.raise_unknown_topic(p_topic, v_namespace);
    end if;
    return v_topic_id;
end
$$;

-- Raises 42501 for a topic whose name starts with "headrace." unless the caller is above namespaces: the topic of the console's audit is
-- written, changed and dropped by nobody else. Without a caller it raises for everybody: nothing that a user defines publishes there.
-- Call it only in functions that run as the owner, see headrace_internal.above_namespaces.
-- Calls: above_namespaces.
create or replace function headrace_internal.refuse_reserved_topic(p_topic text, p_caller name default null) returns void
language plpgsql stable
as $$
begin
    if p_topic like 'headrace.%' and (p_caller is null or headrace_internal.above_namespaces(p_caller) is not true) then
        raise exception 'topic "%" is reserved: names that start with "headrace." belong to headrace', p_topic
            using errcode = '42501', hint = 'Choose another topic.';
    end if;
end
$$;

-- Raises HR313 for a retention with which PostgreSQL cannot compute: negative, infinite or more than 1000 years. Null and zero, which
-- keep the log for ever, are allowed.
create or replace function headrace_internal.check_retention(p_retention interval) returns void
language plpgsql stable
as $$
begin
    if p_retention not between interval '0' and interval '1000 years' then
        raise exception 'retention is %, 0 to 1000 years are allowed', p_retention
            using errcode = 'HR313', hint = 'To keep the log for ever, leave the retention out or set it to 0.';
    end if;
end
$$;

-- Returns the next number for a topic: one that no topic has, and under which no dropped one has left anything. A number that was taken by
-- a transaction that is rolled back is not given back, so after the last one they start again. Locks nothing. Indexes: topic_pkey,
-- dropped_topic_pkey, firing_position, correlation_position, outbox_order.
create or replace function headrace_internal.unused_topic_id() returns integer
language plpgsql volatile
set enable_seqscan = off set jit = off
as $$
declare
    v_topic_id integer;
begin
    loop
        v_topic_id := nextval(pg_get_serial_sequence('headrace_internal.topic', 'topic_id'));
        exit when not exists (select from headrace_internal.topic t where t.topic_id = v_topic_id)
            and not exists (select from headrace_internal.dropped_topic d where d.topic_id = v_topic_id)
            and not exists (select from headrace_internal.firing f where f.topic_id = v_topic_id)
            and not exists (select from headrace_internal.correlation c where c.topic_id = v_topic_id)
            and not exists (select from headrace_internal.outbox o where o.topic_id = v_topic_id);
    end loop;
    return v_topic_id;
end
$$;

-- headrace.create_topic, with the owner's rights: checks the caller's level, inserts the topic with its first partition count, and creates
-- its branch of the log, managed by pg_partman if that is installed; the sequencer attaches it, see headrace_internal.attach_log.
-- Locks: the namespace's row, key share. It waits at most 2 s for a transaction that creates a topic of the same name, drops the namespace
-- or changes its schemas, and raises HR207 then.
-- Calls: refuse_reserved_topic, check_retention, unused_topic_id, schemas_digest, partman, extend_log.
create or replace function headrace.create_topic_as_role(
    p_topic          text,
    p_partitions     integer,
    p_retention      interval,
    p_time_partition text,
    p_namespace      text,
    p_clock          text,
    p_caller         headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
set timezone = 'UTC'
-- Tables of ours are where the owner's are, whatever the caller's session says.
set default_tablespace = ''
set default_table_access_method = 'heap'
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_topic_id  integer;
    v_branch    text;
    v_partman   record;
begin
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    perform headrace_internal.check_retention(p_retention);
    -- Whoever changes by which schemas payloads are checked holds this row until the end of the transaction.
    perform from headrace_internal.namespace n where n.namespace = v_namespace for key share;
    -- Look first: an insert on conflict uses up a number.
    insert into headrace_internal.topic
        (topic_id, namespace, topic, partitions, retention, time_partition, clock, checks_payloads, schemas_digest)
    overriding system value
    select headrace_internal.unused_topic_id(), v_namespace, p_topic, p_partitions, p_retention, p_time_partition, p_clock, d.digest is not null, d.digest
    from headrace_internal.schemas_digest(v_namespace) d (digest)
    where not exists (select from headrace_internal.topic t where t.namespace = v_namespace and t.topic = p_topic)
    on conflict on constraint topic_name_unique do nothing
    returning topic_id into v_topic_id;
    if v_topic_id is null then
        raise exception 'topic "%" already exists in namespace "%"', p_topic, v_namespace
            using errcode = 'HR201', hint = 'Change it with headrace.alter_topic, or choose another name.';
    end if;
    insert into headrace_internal.topic_border (topic_id, position, partitions) values (v_topic_id, 0, p_partitions);
    v_branch := 'log_' || v_topic_id;
    execute format('create table headrace_internal.%I (like headrace_internal.log) partition by range (appended_at)', v_branch);
    select p.schema, p.major into v_partman from headrace_internal.partman(v_topic_id) p;
    if found then
        execute format('select %I.create_parent(p_parent_table := %L, p_control := %L, p_type := %L, p_interval := %L,'
                ' p_premake := 2, p_start_partition := %L)',
            v_partman.schema, 'headrace_internal.' || v_branch, 'appended_at',
            case when v_partman.major < 5 then 'native' else 'range' end,
            '1 ' || p_time_partition, to_char(date_trunc(p_time_partition, headrace.clock()), 'YYYY-MM-DD'));
    end if;
    perform headrace_internal.extend_log(v_topic_id, headrace.clock());
    return v_topic_id;
exception when lock_not_available then
    raise exception 'topic "%" is not created: another transaction has been creating a topic of that name, or dropping its namespace, for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again when it has ended.';
end
$$;

-- Creates a topic and returns its id. Raises HR201 when the topic exists already. Takes the level admin.
-- pg_partman sets the session's search_path to the one it found, and only a function without a pinned one can put it back: this one.
-- Calls: create_topic_as_role.
create or replace function headrace.create_topic(
    p_topic          text,
    p_partitions     integer default 1,
    p_retention      interval default null,
    p_time_partition text default 'month',
    p_namespace      text default null,
    p_clock          text default 'server'
) returns integer
language plpgsql volatile
as $$
declare
    v_path     text := pg_catalog.current_setting('search_path');
    v_is_set   boolean := (select s.source = 'session' from pg_catalog.pg_settings s where s.name = 'search_path');
    v_topic_id integer := headrace.create_topic_as_role(p_topic, p_partitions, p_retention, p_time_partition, p_namespace, p_clock);
begin
    if pg_catalog.current_setting('search_path') <> v_path then
        if v_is_set then
            perform pg_catalog.set_config('search_path', v_path, false);
        else
            -- Leave no trace: behind a pooler the session belongs to other clients too.
            reset search_path;
        end if;
    end if;
    return v_topic_id;
end
$$;

-- Changes a topic; null leaves a setting as it is. Retention '0' keeps the log for ever.
-- More partitions take effect right after the current head: consumers bring every partition up to that border before any partition
-- passes it, so each key keeps its order. Fewer partitions are rejected (HR204).
-- Raises HR313 for a retention of more than 1000 years, and HR208 for partitions unless READ COMMITTED: by an older snapshot
-- the border would lie before the head. Locks: the topic row, so it waits for a running sequencer batch.
-- Calls: refuse_reserved_topic, check_retention, require_read_committed, topic_id, log_head, add_claims.
create or replace function headrace.alter_topic(
    p_topic      text,
    p_partitions integer default null,
    p_retention  interval default null,
    p_namespace  text default null,
    p_caller     headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic     record;
    v_head      bigint;
begin
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    perform headrace_internal.check_retention(p_retention);
    if p_partitions is not null then
        perform headrace_internal.require_read_committed('headrace.alter_topic');
    end if;
    select t.topic_id, t.partitions, t.dropped_to into v_topic
    from headrace_internal.topic t where t.topic_id = headrace.topic_id(p_topic, v_namespace) for no key update;
    if p_partitions < v_topic.partitions then
        raise exception 'topic "%" has % partitions; % would be fewer', p_topic, v_topic.partitions, p_partitions
            using errcode = 'HR204', hint = 'The number of partitions can only be raised.';
    end if;
    if p_partitions > v_topic.partitions then
        v_head := coalesce((select h.position from headrace.log_head(v_topic.topic_id) h), v_topic.dropped_to);
        insert into headrace_internal.topic_border (topic_id, position, partitions) values (v_topic.topic_id, v_head, p_partitions)
        on conflict on constraint topic_border_pkey do update set partitions = excluded.partitions;
        insert into headrace_internal.cursor (consumer_id, partition, position)
        select c.consumer_id, p.partition, v_head
        from headrace_internal.consumer c
        cross join generate_series(v_topic.partitions, p_partitions - 1) p (partition)
        where c.topic_id = v_topic.topic_id and c.ordered_by = 'partition';
        perform headrace_internal.add_claims(v_topic.topic_id);
    end if;
    update headrace_internal.topic t
    set partitions = coalesce(p_partitions, t.partitions),
        retention = case when p_retention is null then t.retention
            when p_retention = interval '0' then null else p_retention end
    where t.topic_id = v_topic.topic_id;
end
$$;

-- Drops a topic with its log, consumers, captures and waiting events. Rejected (HR203) while it has schedules, and, unless forced, while
-- consumers exist or tables are captured into it; and (HR207) when it cannot get its locks. The branch of the log and waiting events are
-- only marked: to drop the branch takes a lock on the whole log, which this transaction would keep to its end, in front of every namespace.
-- headrace.maintain_log drops it, headrace_internal.trim_outbox the events. Right at every isolation level: it acts on the row that it has
-- locked, and what that row's consumers and captures are is judged again by the foreign keys. Locks: the topic row and what belongs to it;
-- it waits at most 2 s.
-- Calls: topic_id, partman, refuse_reserved_topic, raise_unknown_topic, release_capture, drop_inline.
create or replace function headrace.drop_topic(
    p_topic text, p_force boolean default false, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic_id  integer := headrace.topic_id(p_topic, v_namespace);
    v_wrong     record;
    v_partman   text := (select p.schema from headrace_internal.partman(v_topic_id) p);
begin
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    perform from headrace_internal.topic t where t.topic_id = v_topic_id for update;
    if not found then
        perform headrace_internal.raise_unknown_topic(p_topic, v_namespace);
    end if;
    select w.message, w.hint into v_wrong
    from (
        select 1 as place, format('topic "%s" has schedules: %s', p_topic, string_agg(s.schedule, ', ' order by s.schedule)) as message,
            'Drop them first (headrace schedule drop).' as hint
        from headrace_internal.schedule s where s.topic_id = v_topic_id having count(*) > 0
        union all
        select 2, format('topic "%s" has consumers: %s', p_topic, string_agg(c.consumer, ', ' order by c.consumer)),
            'Drop them first (headrace consumer drop), or drop everything together (--force, p_force => true).'
        from headrace_internal.consumer c where c.topic_id = v_topic_id and not p_force having count(*) > 0
        union all
        select 3, format('tables are captured into topic "%s": %s', p_topic,
                string_agg(regexp_replace(c.captured::text, '^public\.', ''), ', ' order by c.captured::text)),
            'Release them first with headrace.release_capture, or force it.'
        from headrace_internal.capture c where c.topic_id = v_topic_id and not p_force having count(*) > 0
    ) w
    order by w.place limit 1;
    if found then
        raise exception '%', v_wrong.message using errcode = 'HR203', hint = v_wrong.hint;
    end if;
    -- A capture trigger on a table of somebody else stays. It publishes nothing any more.
    perform headrace.release_capture(c.captured, p_topic, v_namespace)
    from headrace_internal.capture c join pg_class t on t.oid = c.captured and pg_has_role(t.relowner, 'usage')
    where c.topic_id = v_topic_id;
    delete from headrace_internal.inline_failure f where f.topic_id = v_topic_id;
    perform headrace_internal.drop_inline(v_topic_id);
    delete from headrace_internal.topic t where t.topic_id = v_topic_id;
    if v_partman is not null then
        execute format('delete from %I.part_config where parent_table = %L', v_partman, 'headrace_internal.log_' || v_topic_id);
    end if;
    insert into headrace_internal.dropped_topic (topic_id) values (v_topic_id);
exception when lock_not_available then
    raise exception 'topic "%" is not dropped: another transaction has held its row, its cursors or a captured table for more than 2 s', p_topic
        using errcode = 'HR207', hint = 'Try again when the handlers and transactions that use it have ended.';
end
$$;

-- Takes a topic for this session and one purpose ('archive' or 'pipeline'), unless another session holds it; never waits for one.
-- Returns whether it is held now. The lock ends with the session: one whose holder is gone is free. Takes the level admin.
-- Locks: the lock's row for a moment.
create or replace function headrace.try_lock_topic(
    p_topic_id integer, p_purpose text, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text := format('%s %s', p_purpose, p_topic_id);
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    if p_purpose is null or p_purpose not in ('archive', 'pipeline') then
        raise exception 'a topic cannot be locked for %', coalesce(quote_literal(p_purpose), 'null')
            using errcode = 'HR300', hint = 'Choose archive or pipeline.';
    end if;
    insert into headrace_internal.lock (name) values (v_name) on conflict on constraint lock_pkey do nothing;
    update headrace_internal.lock l set pid = pg_backend_pid(), role = p_caller
    where l.name = v_name and not exists (
        select from pg_stat_activity a
        where a.pid = l.pid and a.pid <> pg_backend_pid() and a.usename = l.role and a.datname = current_database());
    return found;
end
$$;

-- Locks a table of a topic's log until the end of the transaction, access exclusive. Waits at most 10 ms: whoever reads the table delays
-- only that topic, and the sequencer serves those of other namespaces in the same transaction.
create or replace function headrace_internal.lock_briefly(p_table regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
set lock_timeout = '10ms'
as $$
begin
    execute format('lock table %s in access exclusive mode', p_table);
end
$$;
