-- Erases the events of a key in a topic, and what was made of them, in this transaction. Returns the id of the erasure; its row in
-- headrace.erasure says how many rows there were. Positions, types, times and ids stay. To see what it would do, roll back.
-- p_fields: redact only these fields of the payloads, such as 'email' or 'customer.name'. p_replace_key: give the events a random key.
-- p_actions: erase also actions with this key that your own code sent. p_archived: ids, positions and times of events of the key that
-- are in the archive; "headrace topic erase" looks for them and writes the files again. Without them a topic is rejected (HR300) if
-- only its archive has some of its events.
-- Old versions of the rows stay on disk until VACUUM; "headrace topic erasures --finish" runs it, headrace.erasure lists the tables.
-- Raises HR250 while the topic is archived, HR208 unless READ COMMITTED. Takes the level admin.
-- Locks: the rows of the topic and of the topics that correlators publish its outputs to, so that no event is sequenced meanwhile, but
-- not while it searches the log; the cursors of correlators; the rows.
-- It reads the whole log of the topic: there is no index on the key.
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
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
    perform headrace_internal.lock_with_outputs(v_topic_id);
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
            or s.schemaname = 'headrace_internal' and s.relname in ('outbox_0', 'outbox_1', 'outbox_2', 'outbox_3', 'cursor', 'dead_letter',
                'correlator_instance', 'stream_state', 'spark_stage', 'idempotency_key')
            or s.relid in (select q from headrace_internal.queue_tables(v_namespace) q)
        order by 1)
    where e.erasure_id = v_erasure.erasure_id and e.row_counts <> '{}';
    return v_erasure.erasure_id;
end
$$;
