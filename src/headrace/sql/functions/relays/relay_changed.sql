-- After a relay was written: records the new version, keeps its consumer with the failure policy and the condition of the relay, and
-- notifies the nodes, which compile the condition. A dropped relay ends with its consumer, its cursors and its dead letters, after a running delivery. A relay that is dropped
-- with its topic leaves no version. Runs as the owner. Locks: the topic row for a new relay, so that 'latest' is a definite position.
create or replace function headrace_internal.relay_changed() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer record;
begin
    if tg_op = 'DELETE' then
        delete from headrace_internal.consumer c where c.topic_id = old.topic_id and c.consumer = 'relay.' || old.relay;
        insert into headrace_internal.relay_version (relay_id, version, namespace, relay, topic_id, condition, target, options, format,
            mapping, attempts, backoff_s, backoff_max_s, when_exhausted, key_order, batch, concurrency, active, dropped)
        select old.relay_id, old.version + 1, old.namespace, old.relay, old.topic_id, old.condition, old.target, old.options, old.format,
            old.mapping, old.attempts, old.backoff_s, old.backoff_max_s, old.when_exhausted, old.key_order, old.batch, old.concurrency,
            false, true
        from headrace_internal.topic t where t.topic_id = old.topic_id;
    else
        insert into headrace_internal.relay_version (relay_id, version, namespace, relay, topic_id, condition, target, options, format,
            mapping, attempts, backoff_s, backoff_max_s, when_exhausted, key_order, batch, concurrency, active)
        select new.relay_id, new.version, new.namespace, new.relay, new.topic_id, new.condition, new.target, new.options, new.format,
            new.mapping, new.attempts, new.backoff_s, new.backoff_max_s, new.when_exhausted, new.key_order, new.batch, new.concurrency,
            new.active
        where not exists (
            select from headrace_internal.relay_version v where v.relay_id = new.relay_id and v.version = new.version);
        if not found then
            return null;
        end if;
        if tg_op = 'INSERT' then
            perform from headrace_internal.topic t where t.topic_id = new.topic_id for no key update;
        end if;
        insert into headrace_internal.consumer as c
            (topic_id, consumer, attempts_max, backoff_s, backoff_max_s, when_exhausted, key_order, condition)
        values (new.topic_id, 'relay.' || new.relay, new.attempts, new.backoff_s, new.backoff_max_s, new.when_exhausted, new.key_order,
            nullif(new.condition, 'true'))
        on conflict on constraint consumer_name_unique do update
        set attempts_max = excluded.attempts_max, backoff_s = excluded.backoff_s, backoff_max_s = excluded.backoff_max_s,
            when_exhausted = excluded.when_exhausted, key_order = excluded.key_order, condition = excluded.condition,
            filter = case when c.condition = excluded.condition then c.filter end,
            condition_error = case when c.condition = excluded.condition then c.condition_error end
        returning c.consumer_id, c.condition is not null and c.filter is null and c.condition_error is null as is_pending
        into v_consumer;
        if v_consumer.is_pending then
            perform headrace_internal.notify('headrace_rule', '');
        end if;
        insert into headrace_internal.cursor (consumer_id, partition, position)
        select v_consumer.consumer_id, p.partition, case when new.start = 'latest'
            then coalesce((select h.position from headrace.log_head(new.topic_id) h), t.dropped_to) else t.dropped_to end
        from headrace_internal.topic t cross join generate_series(0, t.partitions - 1) p (partition)
        where t.topic_id = new.topic_id
        on conflict on constraint cursor_pkey do nothing;
        perform headrace_internal.add_claims(new.topic_id);
    end if;
    perform headrace_internal.notify('headrace_relay', '');
    return null;
end
$$;

create or replace trigger relay_changed after insert or update or delete on headrace_internal.relay
for each row execute function headrace_internal.relay_changed();
