-- Claims a unique key for an action that is about to be sent: null, or the id of the earlier action that holds the key. That one is in
-- the queue (waiting or in flight), or its period is not over. Concurrent senders wait for each other at the row, so exactly one sends.
-- Locks: the row of the key. Indexes: unique_action_pkey, q_<queue>_pkey.
create or replace function headrace_internal.claim_unique_key(
    p_namespace text, p_action text, p_unique_key text, p_unique_for interval, p_id uuid
) returns uuid
language plpgsql volatile
as $$
declare
    v_until   timestamptz := headrace.clock() + coalesce(p_unique_for, interval '0');
    v_holder  record;
    v_is_held boolean;
begin
    if p_unique_key is null or char_length(p_unique_key) not between 1 and 500 then
        raise exception 'the unique key of an action has 1 to 500 characters, not %', coalesce(char_length(p_unique_key), 0)
            using errcode = 'HR300', hint = 'Give p_unique_key together with p_unique_for; for a longer key, use its hash.';
    end if;
    if p_unique_for < interval '0' or p_unique_for > interval '1 year' then
        raise exception 'an action cannot be unique for %', p_unique_for
            using errcode = 'HR300', hint = 'Give a period from zero to one year.';
    end if;
    -- The update changes nothing, but locks the row of an earlier sender, after its transaction has ended.
    insert into headrace_internal.unique_action as u (namespace, action, unique_key, action_id, unique_until)
    values (p_namespace, p_action, p_unique_key, p_id, v_until)
    on conflict on constraint unique_action_pkey do update set action_id = u.action_id
    returning u.action_id, u.msg_id, u.unique_until into v_holder;
    if v_holder.msg_id is null then
        return null;
    end if;
    execute format('select exists (select from pgmq.%I q where q.msg_id = $1)', 'q_' || headrace_internal.queue_of(p_namespace))
    into v_is_held using v_holder.msg_id;
    if v_is_held or v_holder.unique_until > headrace.clock() then
        return v_holder.action_id;
    end if;
    update headrace_internal.unique_action u set action_id = p_id, msg_id = null, unique_until = v_until
    where u.namespace = p_namespace and u.action = p_action and u.unique_key = p_unique_key;
    return null;
end
$$;
