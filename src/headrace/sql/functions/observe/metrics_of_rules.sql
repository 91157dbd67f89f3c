-- Metric headrace_rule_firings_total: how often each rule has fired on the events after the position that p_known has for its topic, up
-- to the position of the topic's rules, which is returned as headrace_known. A topic that is not in p_known is new to the caller: its
-- count starts there.
-- Exact: firings commit together with that position. At most 100 000 positions per call, so that one call stays short; the next one
-- continues. Index: firing_position.
create or replace function headrace_internal.metrics_of_rules(p_namespaces text[], p_known jsonb)
returns table (metric text, labels text[], value double precision)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_topic record;
begin
    for v_topic in
        select t.topic_id, t.namespace, t.topic, a.after, least(u.position, coalesce(a.after, u.position) + 100000) as upto
        from headrace_internal.topic t
        join headrace_internal.consumer c on c.topic_id = t.topic_id and c.consumer = 'headrace.rules'
        join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
        cross join lateral (select (p_known ->> ('rules ' || t.topic_id))::bigint as after) a
        where t.namespace = any (p_namespaces)
    loop
        metric := 'headrace_known';
        labels := array['rules ' || v_topic.topic_id, v_topic.upto::text];
        return next;
        if v_topic.after < v_topic.upto then
            return query
            select 'headrace_rule_firings_total', array[v_topic.namespace, v_topic.topic, v.rule], sum(f.firings)::double precision
            from (
                select f.rule_version_id, count(*) as firings from headrace_internal.firing f
                where f.topic_id = v_topic.topic_id and f.position > v_topic.after and f.position <= v_topic.upto
                group by f.rule_version_id
            ) f
            join headrace_internal.rule_version v on v.version_id = f.rule_version_id
            group by v.rule;
        end if;
    end loop;
end
$$;
