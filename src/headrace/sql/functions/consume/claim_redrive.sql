-- Claims the oldest dead letter to be tried again whose key has none before it, with its partition's cursor. One that the cursor
-- has not come to yet waits until it was passed: redriven before, it would be handled again then.
-- Locks: the cursor row of the partition, skip locked, so that the key's order holds. Index: dead_letter_redrive.
create or replace function headrace_internal.claim_redrive(p_consumer_id integer)
returns table (dead_letter_id bigint, partition integer, "position" bigint)
language sql volatile
as $$
    select d.dead_letter_id, d.partition, d.position
    from headrace_internal.dead_letter d
    join headrace_internal.cursor c on c.consumer_id = d.consumer_id and c.partition = d.partition
    where d.consumer_id = p_consumer_id and d.state = 'redrive' and d.position <= c.position
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = d.consumer_id and e.key = d.key and e.position < d.position
                and e.state in ('dead', 'behind', 'redrive'))
    order by d.position
    limit 1
    for no key update of c skip locked
$$;
