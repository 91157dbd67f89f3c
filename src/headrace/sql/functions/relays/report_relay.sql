-- Records what a node has found out about a version of a relay: 'valid', 'invalid' with the error, or 'disabled' with the reason of
-- the target, which also pauses it. True if that version is still the current one. Takes the level consume, as running a relay does.
-- Locks: the relay row.
create or replace function headrace.report_relay(
    p_relay_id integer, p_version integer, p_status text, p_error text default null,
    p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
