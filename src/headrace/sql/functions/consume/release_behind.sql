-- Marks for a redrive the events of these keys of a consumer that wait behind a dead letter which has ended; those behind another one
-- that is still dead go on waiting. The caller holds the ended letters for update: so batches that were in flight and have held events
-- back behind them (headrace.hold_back) have committed, and these events are seen here. Index: dead_letter_held.
create or replace function headrace_internal.release_behind(p_consumer_id bigint, p_keys text[]) returns void
language sql volatile
as $$
    update headrace_internal.dead_letter b set state = 'redrive'
    where b.consumer_id = p_consumer_id and b.key = any (p_keys) and b.state = 'behind'
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = p_consumer_id and e.key = b.key and e.state = 'dead' and e.position < b.position)
$$;
