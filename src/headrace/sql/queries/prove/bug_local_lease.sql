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
