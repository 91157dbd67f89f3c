-- Why no rule fired on an event: 'no rule for its type', 'a condition unknown' (of at least one rule; the others are false),
-- 'no condition true', 'erased' (its data is gone, so its conditions cannot be asked again), or 'published before its rule': a condition
-- is true, but its inline rule was not there yet when the event was published.
-- It evaluates the compiled conditions of the versions that were active at the event's position: nothing is
-- recorded per event. For the view headrace.event_unmatched, which calls it only where the reason is read.
-- Index: rule_version_in_force.
create or replace function headrace_internal.unmatched_reason(
    p_topic_id integer, p_position bigint, p_type text, p_key text, p_payload jsonb, p_headers jsonb, p_emitted_at timestamptz,
    p_caller headrace_internal.caller default current_user
) returns text
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_any_true text;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select string_agg(format('(%s)', v.filter), ' or ' order by v.version_id) into v_any_true
    from headrace_internal.rule_version v
    where v.topic_id = p_topic_id and v.since_position <= p_position
        and (v.until_position is null or v.until_position >= p_position) and v.event_type = p_type;
    if v_any_true is null then
        return 'no rule for its type';
    elsif p_headers ?| array['headrace-erased', 'headrace-redacted'] then
        return 'erased';
    end if;
    return case headrace_internal.evaluate_filter(v_any_true, p_type, p_key, p_payload, p_headers, p_emitted_at)
        when true then 'published before its rule'
        when false then 'no condition true'
        else 'a condition unknown' end;
end
$$;
