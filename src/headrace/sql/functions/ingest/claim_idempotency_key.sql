-- Claims an idempotency key of an access token in the transaction that publishes the events. Returns null if it is new, and the ids
-- of the events of the first request if that asked for the same; raises HR262 if it asked for something else. Takes the level publish
-- in the token's namespace. Locks: a request with the same key that has not committed yet is waited for. Index: idempotency_key_once.
create or replace function headrace.claim_idempotency_key(
    p_token_id bigint, p_digest bytea, p_request_digest bytea, p_event_ids uuid[],
    p_caller headrace_internal.caller default current_user
) returns uuid[]
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := (select t.namespace from headrace_internal.access_token t where t.token_id = p_token_id);
    v_first     headrace_internal.idempotency_key;
begin
    if v_namespace is null or not headrace_internal.holds_level(p_caller, 'publish', v_namespace) then
        raise exception 'permission denied for access token %', p_token_id
            using errcode = '42501', hint = 'It takes the level publish in its namespace: see headrace.grant_namespace.';
    end if;
    insert into headrace_internal.idempotency_key (token_id, digest, request_digest, event_ids)
    values (p_token_id, p_digest, p_request_digest, p_event_ids)
    on conflict on constraint idempotency_key_once do nothing;
    if found then
        return null;
    end if;
    select k.* into v_first from headrace_internal.idempotency_key k where k.token_id = p_token_id and k.digest = p_digest;
    if v_first.request_digest is distinct from p_request_digest then
        raise exception 'this Idempotency-Key came with another request before'
            using errcode = 'HR262', hint = 'Use a new key for every request; repeat a key only with the same content.';
    end if;
    return v_first.event_ids;
end
$$;
