-- What is to be tried again is found by the time it falls due, so that a claim does not walk over what still waits.
do $$
declare
    v_queue text;
begin
    for v_queue in select 'q_hr_' || q.namespace from headrace.queue q loop
        execute format('drop index if exists pgmq.%I', v_queue || '_retried');
        execute format('create index %I on pgmq.%I (vt) where read_ct > 0', v_queue || '_retried', v_queue);
    end loop;
end
$$;
