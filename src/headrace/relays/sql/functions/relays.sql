-- Returns the first option of a relay that has a secret in clear text, null if none has: an option, at whatever depth, that is named like a
-- secret and is no reference (env:… or file:…), or an address with a password. The library has the same rule and better messages.
create or replace function headrace_internal.option_with_clear_secret(p_options jsonb) returns text
language sql immutable
as $$
    with recursive part (option, name, value) as (
        select o.key, o.key, o.value from jsonb_each(p_options) o
        union all
        select p.option, coalesce(e.name, p.name), e.value
        from part p
        cross join lateral (
            select o.key as name, o.value from jsonb_each(case jsonb_typeof(p.value) when 'object' then p.value else '{}' end) o
            union all
            select null, a.value from jsonb_array_elements(case jsonb_typeof(p.value) when 'array' then p.value else '[]' end) a
        ) e
    )
    select p.option
    from part p cross join lateral (select p.value #>> '{}' as text) v
    where jsonb_typeof(p.value) in ('string', 'number') and (
        (p.name ~* '(secret|password|passwd|token|credential|apikey|api_key|authorization)' and v.text !~ '^(env|file):.')
        or v.text ~ '://[^/@[:space:]]*:[^/@[:space:]]+@' or v.text ~* '\mpassword\s*=')
    order by p.option
    limit 1
$$;

-- Rejects a relay with a secret in clear text.
-- Calls: option_with_clear_secret.
create or replace function headrace_internal.check_relay(p_relay headrace_internal.relay) returns void
language plpgsql stable
as $$
declare
    v_option text := headrace_internal.option_with_clear_secret(p_relay.options);
begin
    if v_option is not null then
        raise exception 'option "%" of relay "%" has a secret in clear text', v_option, p_relay.relay
            using errcode = 'HR300', hint = 'Refer to it: env:NAME is a variable of the node for this namespace, file:name a file in its folder of secrets.';
    end if;
end
$$;

-- A change is a new version.
create or replace trigger relay_written before insert or update on headrace_internal.relay
for each row execute function headrace_internal.definition_written();

-- After a relay was written: records the new version, keeps its consumer with the failure policy and the condition of the relay, and
-- notifies the nodes, which compile the condition. A dropped relay ends with its consumer, its cursors and its dead letters, after a running delivery. A relay that is dropped
-- with its topic leaves no version. Runs as the owner. Locks: the topic row for a new relay, so that 'latest' is a definite position.
-- Calls: record_versions, keep_consumer, notify.
create or replace function headrace_internal.relay_changed() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        delete from headrace_internal.consumer c where c.topic_id = old.topic_id and c.consumer = 'relay.' || old.relay;
        perform headrace_internal.record_versions('relay', jsonb_build_array(to_jsonb(old)), p_dropped => true);
    else
        if headrace_internal.record_versions('relay', jsonb_build_array(to_jsonb(new))) = '{}' then
            return null;
        end if;
        if tg_op = 'INSERT' then
            perform from headrace_internal.topic t where t.topic_id = new.topic_id for no key update;
        end if;
        perform headrace_internal.keep_consumer(new.topic_id, 'relay.' || new.relay, new.start, 'partition', new.attempts, new.backoff_s,
            new.backoff_max_s, new.when_exhausted, new.key_order, nullif(new.condition, 'true'));
    end if;
    perform headrace_internal.notify('headrace_relay', '');
    return null;
end
$$;

create or replace trigger relay_changed after insert or update or delete on headrace_internal.relay
for each row execute function headrace_internal.relay_changed();

-- Records what a node has found out about a version of a relay: 'valid', 'invalid' with the error, or 'disabled' with the reason of
-- the target, which also pauses it. True if that version is still the current one. Takes the level consume, as running a relay does.
-- Locks: the relay row.
-- Calls: pause_subject.
create or replace function headrace.report_relay(
    p_relay_id bigint, p_version integer, p_status text, p_error text default null,
    p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_relay record;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'relay', p_relay_id);
    update headrace_internal.relay r set status = p_status, error = left(p_error, 2000)
    where r.relay_id = p_relay_id and r.version = p_version and r.status <> 'disabled'
    returning r.namespace, r.relay into v_relay;
    if not found then
        return false;
    end if;
    if p_status = 'disabled' then
        insert into headrace_internal.pause (namespace, kind, name, consumer_id, reason, paused_by)
        select v_relay.namespace, 'relay', v_relay.relay, s.consumer_id, left(p_error, 1000), p_caller
        from headrace_internal.pause_subject('relay', v_relay.relay, v_relay.namespace) s
        on conflict do nothing;
    end if;
    return true;
end
$$;
