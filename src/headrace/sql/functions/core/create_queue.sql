-- Makes a namespace's action queue and its dead-letter queue. Changes nothing when they are there.
-- pgmq's own functions work on the tables as before; three indexes of ours come on top:
-- priority: actions that go before or after the others, only those; key_order: for handlers that ask for order by key;
-- retried: what was handed out at least once, in flight or to be tried again, in the order it falls due.
create or replace function headrace_internal.create_queue(p_namespace text) returns void
language plpgsql volatile
as $$
declare
    v_queue text := headrace_internal.queue_name(p_namespace);
begin
    perform pgmq.create(v_queue);
    perform pgmq.create(v_queue || '_dlq');
    execute format('create index if not exists %I on pgmq.%I ((message -> ''priority'') desc, msg_id) '
        'where jsonb_typeof(message -> ''priority'') = ''number'' and message -> ''priority'' <> ''0''',
        'q_' || v_queue || '_priority', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I ((message ->> ''action''), (message ->> ''key''), msg_id) '
        'where message ->> ''key'' is not null',
        'q_' || v_queue || '_key_order', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I (vt) where read_ct > 0',
        'q_' || v_queue || '_retried', 'q_' || v_queue);
    -- Rows live for moments here: clean up early, or the claim walks over the dead ones.
    execute format('alter table pgmq.%I set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000)',
        'q_' || v_queue);
    insert into headrace_internal.queue (namespace) values (p_namespace) on conflict on constraint queue_pkey do nothing;
end
$$;
