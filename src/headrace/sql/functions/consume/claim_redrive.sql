-- Claims the oldest dead letter marked for a redrive whose key has no older one, together with the cursor of its partition.
-- A letter after the cursor waits until the cursor has passed it: otherwise its event would be handled twice.
-- Locks: the cursor row of the partition, skip locked, so that the key keeps its order; and the letter, which another node may have
-- ended a moment ago. Index: dead_letter_redrive. A letter whose last redrive was lost with its session, see headrace.claim_events, is
-- dead again, and no letter is claimed.
create or replace function headrace.claim_redrive(p_consumer_id bigint, p_caller headrace_internal.caller default current_user)
returns table (dead_letter_id bigint, partition integer, "position" bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_letter record;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    select d.dead_letter_id, d.xmax as locked_by, (c.session_limit_s * 1000)::integer::text as session_limit_ms into v_letter
    from headrace_internal.dead_letter d join headrace_internal.consumer c on c.consumer_id = d.consumer_id
    where d.consumer_id = p_consumer_id and d.state = 'redrive'
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = d.consumer_id and e.key = d.key and e.position < d.position
                and e.state in ('dead', 'behind', 'redrive'))
    order by d.position limit 1;
    if not found then
        return;
    end if;
    if headrace_internal.transaction_status(v_letter.locked_by) = 'aborted' then
        perform headrace.end_redrive(v_letter.dead_letter_id, 'SessionLost: the session that handled it was lost: its process was '
            'killed, hung for longer than its limit, or lost the connection');
        return;
    end if;
    perform set_config('idle_in_transaction_session_timeout', v_letter.session_limit_ms, true);
    return query
    select d.dead_letter_id, d.partition, d.position
    from headrace_internal.dead_letter d
    join headrace_internal.cursor c on c.consumer_id = d.consumer_id and c.partition = d.partition
    where d.consumer_id = p_consumer_id and d.state = 'redrive' and d.position <= c.position
        and not exists (select from headrace_internal.pause p where p.consumer_id = p_consumer_id)
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = d.consumer_id and e.key = d.key and e.position < d.position
                and e.state in ('dead', 'behind', 'redrive'))
    order by d.position
    limit 1
    for no key update of c, d skip locked;
end
$$;
