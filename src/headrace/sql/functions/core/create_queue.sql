-- Creates a namespace's action queue and its dead-letter queue, unless they exist.
-- pgmq's own functions work on the tables as usual; we add three indexes: priority, only for actions with a priority; key_order,
-- for handlers that ask for order by key; retried, for actions claimed at least once, in the order in which they fall due.
-- Dead letters get two: group, to count and page them by what they have in common; action, to find those of an action by its id.
create or replace function headrace_internal.create_queue(p_namespace text) returns void
language plpgsql volatile
as $$
declare
    v_queue   text := headrace_internal.queue_of(p_namespace);
    v_letters text := headrace_internal.dead_letter_queue(v_queue);
begin
    perform pgmq.create(v_queue);
    perform pgmq.create(v_letters);
    execute format('create index if not exists %I on pgmq.%I ((message -> ''priority'') desc, msg_id) '
        'where jsonb_typeof(message -> ''priority'') = ''number'' and message -> ''priority'' <> ''0''',
        'q_' || v_queue || '_priority', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I ((message ->> ''action''), (message ->> ''key''), msg_id) '
        'where message ->> ''key'' is not null',
        'q_' || v_queue || '_key_order', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I (vt) where read_ct > 0',
        'q_' || v_queue || '_retried', 'q_' || v_queue);
    execute format('create index if not exists %I on pgmq.%I (headrace_internal.dead_letter_group(message), msg_id)',
        'q_' || v_letters || '_group', 'q_' || v_letters);
    execute format('create index if not exists %I on pgmq.%I ((message -> ''action'' ->> ''id''))',
        'q_' || v_letters || '_action', 'q_' || v_letters);
    execute format('create index if not exists %I on pgmq.%I ((message -> ''action'' ->> ''id''))',
        'a_' || v_letters || '_action', 'a_' || v_letters);
    -- Rows live for moments here: clean up early, or the claim walks over the dead ones.
    execute format('alter table pgmq.%I set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000)',
        'q_' || v_queue);
    insert into headrace_internal.queue (namespace) values (p_namespace) on conflict on constraint queue_pkey do nothing;
end
$$;
