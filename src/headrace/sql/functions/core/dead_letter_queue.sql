-- The name of the queue in pgmq that holds a namespace's dead letters: hrd_<namespace>. Its prefix differs from that of action queues,
-- so that no namespace's dead letters are another one's actions.
create or replace function headrace_internal.dead_letter_queue(p_namespace text) returns text
language sql stable
as $$
    select 'hrd_' || substr(headrace.queue_name(p_namespace), 4)
$$;
