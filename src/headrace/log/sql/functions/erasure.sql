-- Adds to the number of erased rows of a place. Index: erasure_pkey.
create or replace function headrace_internal.count_erased(p_erasure_id bigint, p_place text, p_rows bigint) returns void
language sql volatile
as $$
    update headrace_internal.erasure e
    set row_counts = e.row_counts || jsonb_build_object(p_place, coalesce((e.row_counts ->> p_place)::bigint, 0) + p_rows)
    where e.erasure_id = p_erasure_id and p_rows > 0
$$;

-- Erases what streams over a topic keep of these events: keys and captured values of outputs, and states, whose keys start again with
-- their next event. p_key is the key of the events, null for none. A state with kept values goes with any erasure: its values may be of
-- events that are no evidence any more. Locks: the streams' rows, before the others: a batch that runs would write a state back.
-- Calls: count_erased.
create or replace function headrace_internal.erase_streams(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_positions bigint[], p_key text
) returns void
language plpgsql volatile
as $$
declare
    v_salt    text := gen_random_uuid()::text;
    v_streams bigint[];
    v_states  bigint;
    v_outputs bigint;
begin
    v_streams := array(
        select s.stream_id from headrace_internal.stream s
        join headrace_internal.topic t on t.namespace = s.namespace and t.topic = s.topic
        where t.topic_id = p_topic_id order by s.stream_id for update of s);
    delete from headrace_internal.stream_state s
    where s.stream_id = any (v_streams) and (s.key = p_key or s.state::jsonb -> 6 <> 'null' or exists (
        select from jsonb_array_elements_text(s.state::jsonb -> 2) e (position) where e.position::bigint = any (p_positions))
        or (s.state::jsonb ->> 3)::bigint > jsonb_array_length(s.state::jsonb -> 2));
    get diagnostics v_states = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'stream states', v_states);
    -- A new key for each old one, so that outputs stay apart. The salt is forgotten: nobody can compute it again.
    update headrace_internal.stream_output o
    set captured = case when o.captured is not null then '{}'::jsonb end,
        key = case when o.key = '' or o.key like 'erased-%' then o.key
            else 'erased-' || left(encode(sha256(convert_to(v_salt || o.key, 'UTF8')), 'hex'), 32) end
    where o.stream_id = any (v_streams) and (o.key = p_key or o.evidence && p_positions or o.evidence_total > cardinality(o.evidence));
    get diagnostics v_outputs = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'stream outputs', v_outputs);
end
$$;

-- Erases what correlators of a topic keep of these events: captured values, keys that were computed from payloads, and instances, whose
-- keys start again with their next event. Call it while the log still has the payloads. p_key is the key of the events, null for
-- outputs of other correlators; p_times are the times of events that only the archive has.
-- Returns the outputs that quote the events: 'action' or 'event', topic (of an event) and id.
-- Locks: the cursors of the topic's rules and correlators, before the rows: a batch that runs would send an action with the payload it
-- has read, or write an instance back.
-- Calls: count_erased, erase_streams.
create or replace function headrace_internal.erase_correlations(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_positions bigint[], p_event_ids uuid[], p_times timestamptz[], p_key text
) returns table (becomes text, topic text, output_id uuid)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_salt       text := gen_random_uuid()::text;
    v_correlator record;
    v_position   bigint;
    v_key        text;
    v_keys       text[];
    v_affected   bigint[];
    v_instances  bigint;
    v_outputs    bigint;
begin
    perform from headrace_internal.cursor u
    where u.consumer_id in (
        select t.consumer_id from headrace_internal.correlator_table t
        join headrace_internal.correlator c on c.correlator_id = t.correlator_id where c.topic_id = p_topic_id
        union all
        select c.consumer_id from headrace_internal.consumer c where c.topic_id = p_topic_id and c.consumer = 'headrace.rules')
    order by u.consumer_id, u.partition for no key update;
    -- Include dropped ones: their outputs are kept.
    for v_correlator in
        select v.correlator_id, t.classifier, coalesce(bool_and(v.key = 'key'), false) as by_event_key
        from headrace_internal.correlator_version v
        left join headrace_internal.correlator_table t on t.correlator_id = v.correlator_id
        where v.topic_id = p_topic_id group by v.correlator_id, t.classifier
    loop
        v_keys := array[p_key];
        for v_position in
            select p.position from unnest(p_positions) p (position) where v_correlator.classifier is not null and not v_correlator.by_event_key
        loop
            execute format('select e.key from (%s) e', v_correlator.classifier) into v_key using v_position - 1, v_position;
            v_keys := v_keys || v_key;
        end loop;
        v_keys := array(select distinct k.key from unnest(v_keys) k (key) where k.key <> '');
        -- Search by key and by evidence. What was cut from the evidence is not known: such rows of computed keys are erased, too.
        delete from headrace_internal.correlator_instance i
        where i.correlator_id = v_correlator.correlator_id and (i.key = any (v_keys) or i.evidence && p_positions
            or not v_correlator.by_event_key and (i.evidence_total > cardinality(i.evidence) or i.seen_at = any (p_times)));
        get diagnostics v_instances = row_count;
        perform headrace_internal.count_erased(p_erasure.erasure_id, 'correlator instances', v_instances);
        v_affected := array(
            select f.correlation_id
            from headrace_internal.correlation f join headrace_internal.correlator_version v on v.version_id = f.version_id
            where f.topic_id = p_topic_id and v.correlator_id = v_correlator.correlator_id
                and (f.event_id = any (p_event_ids) or f.evidence && p_positions or f.key = any (v_keys)
                    or not v_correlator.by_event_key and f.evidence_total > cardinality(f.evidence)));
        return query
        select f.becomes, v.outputs -> f.token ->> 'topic', f.output_id
        from headrace_internal.correlation f join headrace_internal.correlator_version v on v.version_id = f.version_id
        where f.correlation_id = any (v_affected) and f.becomes is not null;
        -- A new key for each old one, so that outputs stay apart. The salt is forgotten: nobody can compute it again.
        update headrace_internal.correlation f
        set captured = case when f.captured is not null then '{}'::jsonb end,
            key = case when f.key = '' or f.key like 'erased-%' then f.key
                when f.key = p_key then coalesce(p_erasure.new_key, f.key)
                when v_correlator.by_event_key then f.key
                else 'erased-' || left(encode(sha256(convert_to(v_salt || f.key, 'UTF8')), 'hex'), 32) end
        where f.correlation_id = any (v_affected);
        get diagnostics v_outputs = row_count;
        perform headrace_internal.count_erased(p_erasure.erasure_id, 'correlator outputs', v_outputs);
    end loop;
    perform headrace_internal.erase_streams(p_erasure, p_topic_id, p_positions, p_key);
end
$$;

-- Erases what consumers of a topic keep of these events: dead letters, which are discarded when whole payloads are erased, and the error
-- texts of cursors and inline rules, which may quote a value. Locks: the rows. Index: dead_letter_once.
-- Calls: erased_payload, erased_headers, erased_key, count_erased.
create or replace function headrace_internal.erase_consumption(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_event_ids uuid[], p_is_output boolean
) returns void
language plpgsql volatile
as $$
declare
    v_rows bigint;
begin
    update headrace_internal.dead_letter d
    set payload = headrace_internal.erased_payload(d.payload, p_erasure.fields, p_is_output),
        edited_payload = case when d.edited_payload is not null
            then headrace_internal.erased_payload(d.edited_payload, p_erasure.fields, p_is_output) end,
        headers = headrace_internal.erased_headers(d.headers, p_erasure.fields, p_erasure.erasure_id),
        key = headrace_internal.erased_key(d.key, p_erasure.new_key, p_is_output),
        error = case when d.error is not null then '(erased)' end, traceback = null,
        state = case when p_erasure.fields is null and d.state in ('dead', 'behind', 'redrive') then 'discarded' else d.state end,
        ended_at = case when p_erasure.fields is null then coalesce(d.ended_at, headrace.clock()) else d.ended_at end
    from headrace_internal.consumer c
    where c.topic_id = p_topic_id and d.consumer_id = c.consumer_id and d.event_id = any (p_event_ids);
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'dead letters of events', v_rows);
    -- Which event a cursor failed on is not recorded: every error text of the topic goes.
    update headrace_internal.cursor u set error = '(erased)', traceback = null
    from headrace_internal.consumer c
    where c.topic_id = p_topic_id and u.consumer_id = c.consumer_id and u.error <> '(erased)';
    update headrace_internal.inline_failure f set error = '(erased)' where f.topic_id = p_topic_id and f.event_id = any (p_event_ids);
end
$$;

-- Erases actions in the queue and among the dead letters of a namespace: those with these ids, those whose cause is one of these events,
-- and those with this key (null: none). Whole payloads: queued actions are cancelled and dead letters deleted, since nobody can handle
-- them any more. With fields: they stay, without the fields; a dead letter also loses its error text and traceback, which may quote a
-- value. "redacted" says by which erasure, and which attempt was the last before it: its handler has the fields in hand, see
-- headrace.fail_action. Locks: the rows. It reads the queue as a whole.
-- Calls: queue_of, dead_letter_queue, uuid_or_null, cancel_actions, erased_payload, erased_key, count_erased.
create or replace function headrace_internal.erase_actions(
    p_erasure headrace_internal.erasure, p_action_ids uuid[], p_event_ids uuid[], p_key text, p_is_output boolean
) returns void
language plpgsql volatile
as $$
declare
    v_queue   text := headrace_internal.queue_of(p_erasure.namespace);
    v_letters text := headrace_internal.dead_letter_queue(v_queue);
    v_table   record;
    v_ids     uuid[] := p_action_ids;
    v_found   uuid[];
    v_rows    bigint;
begin
    for v_table in
        select t.name, t.is_letter, t.is_queue from (values
            ('q_' || v_queue, false, true), ('a_' || v_queue, false, false), ('q_' || v_letters, true, false), ('a_' || v_letters, true, false),
            -- Look once more: a redrive may have moved a letter to the queue since the first look.
            ('q_' || v_queue, false, true)
        ) t (name, is_letter, is_queue)
    loop
        execute format($sql$
            select array_agg(headrace_internal.uuid_or_null(m.action ->> 'id'))
            from (select case when $1 then q.message -> 'action' else q.message end as action from pgmq.%I q) m
            where (m.action ->> 'id' = any ($2::text[]) or m.action -> 'cause' ->> 'event_id' = any ($3::text[]) or m.action ->> 'key' = $4)
                and (m.action -> 'redacted' ->> 'erasure') is distinct from $5::text
            $sql$, v_table.name)
        into v_found using v_table.is_letter, p_action_ids, p_event_ids, p_key, p_erasure.erasure_id;
        continue when v_found is null;
        v_ids := v_ids || v_found;
        if p_erasure.fields is null and v_table.is_queue then
            v_rows := headrace.cancel_actions(v_found, p_in_flight => true, p_namespace => p_erasure.namespace);
        elsif p_erasure.fields is null then
            execute format('delete from pgmq.%I q where (case when $1 then q.message -> ''action'' else q.message end) ->> ''id'' = any ($2::text[])',
                v_table.name) using v_table.is_letter, v_found;
            get diagnostics v_rows = row_count;
        else
            execute format($sql$
                update pgmq.%1$I q
                set message = case when $1 then q.message || jsonb_build_object('action', n.action, 'error', '(erased)', 'traceback', null)
                        || case when q.message ? 'edited_payload' then jsonb_build_object('edited_payload',
                            headrace_internal.erased_payload(q.message -> 'edited_payload', $3, $4)) else '{}' end
                    else n.action end
                from (
                    select o.msg_id, o.action - 'unique_key' || jsonb_build_object(
                        'payload', headrace_internal.erased_payload(o.action -> 'payload', $3, $4),
                        'key', headrace_internal.erased_key(o.action ->> 'key', $5, $4),
                        'redacted', jsonb_build_object('erasure', $6, 'attempt', o.read_ct)) as action
                    from (select o.msg_id, o.read_ct, case when $1 then o.message -> 'action' else o.message end as action from pgmq.%1$I o) o
                    where o.action ->> 'id' = any ($2::text[])
                ) n
                where n.msg_id = q.msg_id
                $sql$, v_table.name)
            using v_table.is_letter, v_found, p_erasure.fields, p_is_output, p_erasure.new_key, p_erasure.erasure_id;
            get diagnostics v_rows = row_count;
        end if;
        perform headrace_internal.count_erased(p_erasure.erasure_id, case when v_table.is_letter then 'dead letters of actions' else 'actions' end, v_rows);
    end loop;
    update headrace_internal.attempt a set error = '(erased)', traceback = null
    where a.namespace = p_erasure.namespace and a.action_id = any (v_ids) and a.error <> '(erased)';
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'attempts', v_rows);
    delete from headrace_internal.unique_action u where u.namespace = p_erasure.namespace and u.action_id = any (v_ids);
end
$$;

-- Erases events of one topic by id, and what was made of them: dead letters, actions, state and outputs of correlators, their actions
-- and events, and so on. Calls itself for events that correlators published. Positions are those of the ids, as far as known; null: those
-- in the log. Times are those of events in the archive. Raises HR250 while another session archives the topic: it may have read what is
-- about to be erased.
-- Locks: the rows, and the archive's lock; the caller holds the topics. Index: log_event_id, firing_once. It names the topic's own branch.
-- Calls: erase_correlations, erased_payload, erased_headers, erased_key, count_erased, erase_consumption, erase_actions, take_lock.
create or replace function headrace_internal.erase_events(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_positions bigint[], p_event_ids uuid[], p_times timestamptz[], p_key text,
    p_is_output boolean
) returns void
language plpgsql volatile
set enable_seqscan = off set jit = off
as $$
declare
    v_rows    bigint;
    v_actions uuid[];
    v_topic   record;
    v_outputs jsonb;
    v_lock    text := format('archive %s', p_topic_id);
begin
    if p_positions is null then
        execute format('select coalesce(array_agg(l.position), ''{}'') from headrace_internal.%I l where l.event_id = any ($1)',
            'log_' || p_topic_id) into p_positions using p_event_ids;
    end if;
    -- First: correlators compute keys from payloads.
    select jsonb_agg(to_jsonb(o)) into v_outputs
    from headrace_internal.erase_correlations(p_erasure, p_topic_id, p_positions, p_event_ids, p_times, p_key) o;
    execute format($sql$
        update headrace_internal.%I l
        set payload = headrace_internal.erased_payload(l.payload, $2, $3), headers = headrace_internal.erased_headers(l.headers, $2, $4),
            key = headrace_internal.erased_key(l.key, $5, $3)
        where l.event_id = any ($1) and not l.headers ? 'headrace-erased'
        $sql$, 'log_' || p_topic_id)
    using p_event_ids, p_erasure.fields, p_is_output, p_erasure.erasure_id, p_erasure.new_key;
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'log', v_rows);
    update headrace_internal.topic t set erasures = t.erasures + 1 where t.topic_id = p_topic_id;
    update headrace_internal.outbox o
    set payload = headrace_internal.erased_payload(o.payload, p_erasure.fields, p_is_output),
        headers = headrace_internal.erased_headers(o.headers, p_erasure.fields, p_erasure.erasure_id),
        key = headrace_internal.erased_key(o.key, p_erasure.new_key, p_is_output)
    where o.topic_id = p_topic_id and o.event_id = any (p_event_ids);
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'outbox', v_rows);
    perform headrace_internal.erase_consumption(p_erasure, p_topic_id, p_event_ids, p_is_output);
    perform headrace_internal.erase_actions(p_erasure, array(
        select f.action_id from headrace_internal.firing f where f.topic_id = p_topic_id and f.event_id = any (p_event_ids)), p_event_ids, null, p_is_output);
    v_actions := array(
        select (o.output ->> 'output_id')::uuid from jsonb_array_elements(v_outputs) o (output) where o.output ->> 'becomes' = 'action');
    if v_actions <> '{}' then
        perform headrace_internal.erase_actions(p_erasure, v_actions, '{}', null, true);
    end if;
    if exists (select from headrace_internal.archive a where a.topic_id = p_topic_id) then
        perform headrace_internal.take_lock(v_lock);
        if exists (
            select from headrace_internal.lock l join pg_stat_activity a on a.pid = l.pid and a.usename = l.role
            where l.name = v_lock and a.pid <> pg_backend_pid() and a.datname = current_database()) then
            raise exception 'the topic is being archived by another process'
                using errcode = 'HR250', hint = 'Wait until it has finished.';
        end if;
        insert into headrace_internal.erasure_pending as p (erasure_id, topic_id, event_ids, outputs)
        values (p_erasure.erasure_id, p_topic_id, p_event_ids, p_is_output)
        on conflict on constraint erasure_pending_pkey do update set event_ids = p.event_ids || excluded.event_ids;
    end if;
    for v_topic in
        select t.topic_id, array_agg((o.output ->> 'output_id')::uuid) as event_ids
        from jsonb_array_elements(v_outputs) o (output)
        join headrace_internal.topic t on t.namespace = p_erasure.namespace and t.topic = o.output ->> 'topic'
        where o.output ->> 'becomes' = 'event'
        group by t.topic_id
    loop
        -- Held already, unless a correlator has got this output since the topics were locked.
        perform from headrace_internal.topic t where t.topic_id = v_topic.topic_id for no key update;
        perform headrace_internal.erase_events(p_erasure, v_topic.topic_id, null, v_topic.event_ids, '{}', null, true);
    end loop;
end
$$;

-- Erases the events of a key in a topic, and what was made of them, in this transaction. Returns the id of the erasure; its row in
-- headrace.erasure says how many rows there were. Positions, types, times and ids stay. To see what it would do, roll back.
-- p_fields: redact only these fields of the payloads, such as 'email' or 'customer.name'. p_replace_key: give the events a random key.
-- p_actions: erase also actions with this key that your own code sent. p_archived: ids, positions and times of events of the key that
-- are in the archive; "headrace topic erase" looks for them and writes the files again. Without them a topic is rejected (HR300) if
-- only its archive has some of its events.
-- Old versions of the rows stay on disk until VACUUM; "headrace topic erasures --finish" runs it, headrace.erasure lists the tables.
-- Raises HR250 while the topic is archived, HR208 unless READ COMMITTED. Takes the level admin.
-- Locks: the namespace's row, key share; the rows of the topic and of all topics that its events reach as outputs of correlators, also by
-- versions that have ended, in the order of their ids, so that no event is sequenced meanwhile; but not while it searches the log. The cursors of correlators; the rows.
-- It reads the whole log of the topic: there is no index on the key.
-- Calls: topic_id, require_read_committed, log_head, erase_events, erased_payload, erased_headers, erase_actions, queue_tables.
create or replace function headrace.erase_key(
    p_topic       text,
    p_key         text,
    p_fields      text[] default null,
    p_replace_key boolean default false,
    p_actions     boolean default false,
    p_archived    jsonb default null,
    p_namespace   text default null,
    p_caller      headrace_internal.caller default current_user
) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    v_topic_id  integer := headrace.topic_id(p_topic, v_namespace);
    v_erasure   headrace_internal.erasure;
    v_head      bigint;
    v_ids       uuid[] := array(select jsonb_array_elements_text(p_archived -> 'event_ids')::uuid);
    v_positions bigint[] := array(select jsonb_array_elements_text(p_archived -> 'positions')::bigint);
    v_times     timestamptz[] := array(select jsonb_array_elements_text(p_archived -> 'times')::timestamptz);
    v_events    record;
    v_search    text := format('select coalesce(array_agg(l.event_id), ''{}'') as ids, coalesce(array_agg(l.position), ''{}'') as positions '
        'from headrace_internal.%I l where l.key = $1 and l.position > $2 and l.position <= $3', 'log_' || v_topic_id);
begin
    perform headrace_internal.require_read_committed('headrace.erase_key');
    -- First, as whoever changes the schemas of the namespace locks it before the topics: the row of the erasure refers to it.
    perform from headrace_internal.namespace n where n.namespace = v_namespace for key share;
    if p_key is null or p_fields = '{}' or '' = any (p_fields) or array_position(p_fields, null) is not null then
        raise exception 'a key and, to redact, the names of fields are needed'
            using errcode = 'HR300', hint = 'Example: select headrace.erase_key(''orders'', ''customer-7'', array[''email'']).';
    end if;
    if p_archived is null and exists (
            select from headrace_internal.archive a join headrace_internal.topic t on t.topic_id = a.topic_id
            where a.topic_id = v_topic_id and a.first_position <= t.dropped_to) then
        raise exception 'topic "%" has events that only its archive holds', p_topic
            using errcode = 'HR300', hint = 'Erase with "headrace topic erase", which reads and writes the files of the archive, too.';
    end if;
    select coalesce((select h.position from headrace.log_head(v_topic_id) h), 0) into v_head;
    execute v_search into v_events using p_key, 0, v_head;
    v_ids := v_ids || v_events.ids;
    v_positions := v_positions || v_events.positions;
    -- From here on nothing moves from the outbox to the log, of this topic or of its outputs' topics.
    perform from headrace_internal.topic t
    where t.topic_id in (
        with recursive reached (topic_id) as (
            values (v_topic_id)
            union
            select o.topic_id
            from reached r
            join headrace_internal.correlator_version v on v.topic_id = r.topic_id
            cross join lateral jsonb_each(v.outputs) e (token, output)
            join headrace_internal.topic o on o.namespace = v.namespace and o.topic = e.output ->> 'topic')
        select r.topic_id from reached r)
    order by t.topic_id for no key update;
    execute v_search into v_events using p_key, v_head, 9223372036854775807;
    v_ids := v_ids || v_events.ids || array(
        select o.event_id from headrace_internal.outbox o where o.topic_id = v_topic_id and o.key = p_key);
    v_positions := v_positions || v_events.positions;
    insert into headrace_internal.erasure (namespace, topic, fields, new_key, erased_by)
    values (v_namespace, p_topic, p_fields, case when p_replace_key then 'erased-' || gen_random_uuid() end, p_caller)
    returning * into v_erasure;
    perform headrace_internal.erase_events(v_erasure, v_topic_id, v_positions, v_ids, v_times, p_key, false);
    update headrace_internal.spark_stage s set payload = headrace_internal.erased_payload(s.payload, p_fields),
        headers = headrace_internal.erased_headers(s.headers, p_fields, v_erasure.erasure_id), key = coalesce(v_erasure.new_key, s.key)
    where s.namespace = v_namespace and s.topic = p_topic and s.key = p_key;
    if p_actions then
        perform headrace_internal.erase_actions(v_erasure, '{}', '{}', p_key, false);
    end if;
    -- What this transaction changed, and tables that the data has passed through: rows that were deleted there have old versions, too.
    update headrace_internal.erasure e
    set tables = array(
        select format('%I.%I', s.schemaname, s.relname) from pg_stat_xact_all_tables s
        where s.schemaname in ('headrace_internal', 'pgmq') and s.n_tup_upd + s.n_tup_del > 0
            or s.schemaname = 'headrace_internal' and s.relname in ('outbox_0', 'outbox_1', 'outbox_2', 'cursor', 'dead_letter',
                'correlator_instance', 'stream_state', 'spark_stage', 'idempotency_key')
            or s.relid in (select q from headrace_internal.queue_tables(v_namespace) q)
        order by 1)
    where e.erasure_id = v_erasure.erasure_id and e.row_counts <> '{}';
    return v_erasure.erasure_id;
end
$$;

-- Looks whether events of a topic were erased while a handler had them: what it says of them may quote them. is_gone: the last of them
-- was erased as a whole. is_quoted: one of them was erased, or lost fields within the last hour. p_position null: only the last one.
-- Locks: the events, for share, nowait: an erasure that is under way raises 55P03, so try again later; one that comes waits for this
-- transaction, and finds what it writes. Indexes: log_partition, log_position. It names the topic's own branch of the log.
create or replace function headrace_internal.erased_meanwhile(
    p_topic_id integer, p_partition integer, p_position bigint, p_upto bigint, out is_gone boolean, out is_quoted boolean
)
language plpgsql volatile
set enable_seqscan = off set jit = off
as $$
begin
    execute format($sql$
        select coalesce(bool_or(e.position = $3 and e.headers ? 'headrace-erased'), false),
            coalesce(bool_or(e.headers ? 'headrace-erased' or exists (select from headrace_internal.erasure r
                where r.erasure_id::text = e.headers ->> 'headrace-redacted' and r.erased_at > headrace.clock() - interval '1 hour')), false)
        from (select l.position, l.headers from headrace_internal.%I l where %s for share nowait) e
        $sql$, 'log_' || p_topic_id, case when p_position is null then 'l.position = $3'
            when p_partition < 0 then 'l.position > $2 and l.position <= $3'
            else 'l.partition = $1 and l.position > $2 and l.position <= $3' end)
    into is_gone, is_quoted using p_partition, p_position, p_upto;
end
$$;
