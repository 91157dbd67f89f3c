-- Sends the actions of recorded outputs. In pieces: an array ends at 1 GB, and a payload may have 1 MB.
create or replace function headrace_internal.send_correlated(p_version_id bigint, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
begin
    select v.namespace into v_namespace from headrace_internal.correlator_version v where v.version_id = p_version_id;
    for v_actions, v_delays in
        select array_agg(o.envelope order by o.n), array_agg(o.delay_s order by o.n)
        from (
            select o.n, o.delay_s,
                case when o.trace is null then to_jsonb(e) else to_jsonb(e) || jsonb_build_object('headers', o.trace) end as envelope,
                sum(pg_column_size(o.payload)) over (order by o.n rows unbounded preceding) as bytes
            from (
                select o.n, o.id, o.key, o.payload, o.cause, o.event_type, o.output_at, o.trace, o.wanted ->> 'action' as action,
                    coalesce((o.wanted ->> 'priority')::integer, 0) as priority, coalesce((o.wanted ->> 'delay_s')::integer, 0) as delay_s
                from headrace_internal.correlated(p_version_id, p_ids, 'action') o
            ) o
            cross join lateral (
                select o.id, o.action, o.payload, o.key, o.priority, v_namespace as namespace, o.event_type,
                    o.output_at as emitted_at, null::text as producer, o.cause
            ) e
        ) o
        group by o.n / 1000, o.bytes / 16000000
        order by min(o.n)
    loop
        perform headrace.send_actions(v_namespace, v_actions, case when 0 = all (v_delays) then null else v_delays end);
    end loop;
end
$$;
