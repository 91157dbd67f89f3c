-- Plants a second claim of retried actions, whose clock is a minute ahead; the node with the seeded bug calls it.
do $$
begin
    execute replace(replace(pg_get_functiondef('headrace.claim_retried_action'::regproc), 'claim_retried_action', 'claim_retried_ahead'),
        'q.vt <= headrace.clock()', 'q.vt <= headrace.clock() + interval ''1 minute''');
end
$$;
