-- Claims the oldest dead letter marked for a redrive whose key has no older one, together with the cursor of its partition.
-- A letter after the cursor waits until the cursor has passed it: otherwise its event would be handled twice.
-- If the last claim of that partition was lost with its session, see headrace.claim_events, this one only records that, and claims
-- nothing: commit, and claim again. A letter whose redrive was lost is dead again.
-- Locks: the cursor row of the partition, skip locked, so that the key keeps its order; the letter, which another node may have
-- ended a moment ago; and the partition's row of headrace_internal.claim. Index: dead_letter_redrive.
create or replace function headrace.claim_redrive(p_consumer_id bigint, p_caller headrace_internal.caller default current_user)
returns table (dead_letter_id bigint, partition integer, "position" bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    -- After a lost batch, so many events at most are handled one by one: its size is not known here.
    c_batch_max constant integer := 1000;
    -- A cursor and not a query in the loop, which would lock the partitions of ten letters at once.
    v_letters   refcursor;
    v_letter    record;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    open v_letters for
    select d.dead_letter_id, d.partition, d.position, c.position as cursor_position, c.single_to > c.position as is_single,
        (k.session_limit_s * 1000)::integer::text as session_limit_ms
    from headrace_internal.dead_letter d
    join headrace_internal.cursor c on c.consumer_id = d.consumer_id and c.partition = d.partition
    join headrace_internal.consumer k on k.consumer_id = d.consumer_id
    where d.consumer_id = p_consumer_id and d.state = 'redrive' and d.position <= c.position
        and not exists (select from headrace_internal.pause p where p.consumer_id = p_consumer_id)
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = d.consumer_id and e.key = d.key and e.position < d.position
                and e.state in ('dead', 'behind', 'redrive'))
    order by d.position
    for no key update of c skip locked;
    loop
        fetch v_letters into v_letter;
        exit when not found;
        -- Before the letter is locked: it still shows the transaction that has locked it last.
        exit when headrace_internal.count_lost_claim(
            p_consumer_id, v_letter.partition, v_letter.cursor_position, v_letter.is_single, c_batch_max);
        perform from headrace_internal.dead_letter d
        where d.dead_letter_id = v_letter.dead_letter_id and d.state = 'redrive' for no key update skip locked;
        if found then
            perform set_config('idle_in_transaction_session_timeout', v_letter.session_limit_ms, true);
            perform from headrace_internal.claim k
            where k.consumer_id = p_consumer_id and k.partition = v_letter.partition
                -- As in headrace.claim_events.
                and (age(k.xmax) > 0 or headrace_internal.transaction_status(k.xmax) in ('committed', 'aborted'))
            for no key update;
            dead_letter_id := v_letter.dead_letter_id;
            partition := v_letter.partition;
            position := v_letter.position;
            return next;
            exit;
        end if;
    end loop;
    close v_letters;
end
$$;
