-- Publishes the events of a request under an idempotency key of an access token, in the caller's transaction. Returns null if the key
-- is new, and the ids of the first request's events if that asked for the same: then nothing is published. Raises HR262 if it asked for
-- something else. Events are those of headrace.publish_many, each with its id. Takes the level publish in the token's namespace.
-- Locks: a request with the same key that has not committed yet is waited for. Index: idempotency_key_once.
-- Calls: publish_many.
create or replace function headrace.publish_once(
    p_token_id bigint, p_digest bytea, p_request_digest bytea, p_events jsonb, p_caller headrace_internal.caller default current_user
) returns uuid[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text;
    v_first     headrace_internal.idempotency_key;
begin
    perform headrace_internal.authorize_id(p_caller, 'publish', 'access token', p_token_id);
    select t.namespace into v_namespace from headrace_internal.access_token t where t.token_id = p_token_id;
    if jsonb_path_exists(p_events, '$[*] ? (!exists(@.id))') then
        raise exception 'an event has no id' using errcode = 'HR300', hint = 'Give every event its id: a repeated request gets it again.';
    end if;
    insert into headrace_internal.idempotency_key (token_id, digest, request_digest, event_ids)
    values (p_token_id, p_digest, p_request_digest, array(
        select (e.event ->> 'id')::uuid from jsonb_array_elements(p_events) with ordinality e (event, place) order by e.place))
    on conflict on constraint idempotency_key_once do nothing;
    if found then
        perform headrace.publish_many(p_events, v_namespace);
        return null;
    end if;
    select k.* into v_first from headrace_internal.idempotency_key k where k.token_id = p_token_id and k.digest = p_digest;
    if v_first.request_digest is distinct from p_request_digest then
        raise exception 'this Idempotency-Key was already used for another request'
            using errcode = 'HR262', hint = 'Use a new key for every request; repeat a key only with the same content.';
    end if;
    return v_first.event_ids;
end
$$;

-- Deletes idempotency keys older than p_keep, oldest first, at most p_limit rows; the next call continues. Returns the number of rows.
-- The maintenance of nodes calls it. Locks: the rows, skip locked. Index: idempotency_key_age.
create or replace function headrace_internal.trim_idempotency_keys(p_keep interval default '1 day', p_limit integer default 50000)
returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_trimmed integer;
begin
    delete from headrace_internal.idempotency_key k where k.ctid = any (array(
        select o.ctid from headrace_internal.idempotency_key o
        where o.created_at < headrace.clock() - p_keep order by o.created_at limit p_limit for update skip locked));
    get diagnostics v_trimmed = row_count;
    return v_trimmed;
end
$$;
