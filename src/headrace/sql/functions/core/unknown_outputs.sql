-- The actions and event types of a correlator's outputs that are not registered in the namespace, in words; null if all are.
-- In core because a view depends on it; plpgsql, so that its tables may be created later.
create or replace function headrace_internal.unknown_outputs(p_namespace text, p_outputs jsonb) returns text
language plpgsql stable
as $$
begin
    return (
        select nullif(string_agg(u.unknown, ' and ' order by u.token), '')
        from (
            select o.key as token, case
                when o.value ? 'action' and not exists (select from headrace_internal.action a
                    where a.namespace = p_namespace and a.action = o.value ->> 'action')
                then format('action "%s" is not registered', o.value ->> 'action')
                when o.value ? 'event' and not exists (select from headrace_internal.event_type e
                    where e.namespace = p_namespace and e.event_type = o.value ->> 'event')
                then format('event type "%s" is not registered', o.value ->> 'event') end as unknown
            from jsonb_each(p_outputs) o
        ) u
    );
end
$$;
