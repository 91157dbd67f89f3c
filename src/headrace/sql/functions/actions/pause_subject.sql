-- What a pause is about, by kind and name: the consumer that a pause of a consumer, correlator or relay stops, or the rule. Raises HR102,
-- HR120, HR122, HR123 or HR100 if there is none. Anything an action's name is known by will do: a node, a rule, the registry, the queue.
create or replace function headrace_internal.pause_subject(
    p_kind text, p_name text, p_namespace text, out consumer_id bigint, out rule_id integer
)
language plpgsql stable
as $$
declare
    v_is_known boolean;
begin
    if p_kind = 'consumer' then
        if position('/' in p_name) = 0 then
            raise exception '"%" does not name a consumer', p_name
                using errcode = 'HR300', hint = 'Write topic/consumer, for example orders/billing.';
        end if;
        consumer_id := headrace_internal.consumer_id(
            substring(p_name from '^(.*)/[^/]*$'), substring(p_name from '[^/]*$'), p_namespace);
    elsif p_kind = 'rule' then
        select r.rule_id into rule_id from headrace_internal.rule r where r.namespace = p_namespace and r.rule = p_name;
        if rule_id is null then
            raise exception 'there is no rule "%" in namespace "%"', p_name, p_namespace
                using errcode = 'HR120', hint = 'See: select rule from headrace.rule.';
        end if;
    elsif p_kind = 'correlator' then
        if not exists (select from headrace_internal.correlator c where c.namespace = p_namespace and c.correlator = p_name) then
            raise exception 'there is no correlator "%" in namespace "%"', p_name, p_namespace
                using errcode = 'HR122', hint = 'See: select correlator from headrace.correlator.';
        end if;
        select o.consumer_id into consumer_id
        from headrace_internal.correlator c
        join headrace_internal.consumer o on o.topic_id = c.topic_id and o.consumer = 'headrace.correlator.' || c.correlator
        where c.namespace = p_namespace and c.correlator = p_name;
        if consumer_id is null then
            raise exception 'correlator "%" is not active', p_name
                using errcode = 'HR200', hint = 'It reads no events. Activate it: headrace correlator alter NAME --active.';
        end if;
    elsif p_kind = 'relay' then
        select c.consumer_id into consumer_id
        from headrace_internal.relay r
        join headrace_internal.consumer c on c.topic_id = r.topic_id and c.consumer = 'relay.' || r.relay
        where r.namespace = p_namespace and r.relay = p_name;
        if consumer_id is null then
            raise exception 'there is no relay "%" in namespace "%"', p_name, p_namespace
                using errcode = 'HR123', hint = 'See: select relay from headrace.relay.';
        end if;
    elsif p_kind = 'action' then
        execute format($sql$
            select exists (select from headrace_internal.action a where a.namespace = $1 and a.action = $2)
                or exists (select from headrace_internal.node n where n.namespace = $1 and $2 = any (n.handlers))
                or exists (select from headrace_internal.rule r where r.namespace = $1 and r.action = $2)
                or exists (
                    select from headrace_internal.correlator c cross join lateral jsonb_each(c.outputs) o
                    where c.namespace = $1 and o.value ->> 'action' = $2)
                or exists (select from pgmq.%I q where q.message ->> 'action' = $2)
            $sql$, 'q_' || headrace_internal.queue_of(p_namespace)) into v_is_known using p_namespace, p_name;
        if not v_is_known then
            raise exception 'namespace "%" knows no action "%"', p_namespace, p_name
                using errcode = 'HR100', hint = 'See: headrace action list. To pause it before it is used, register it: headrace action create.';
        end if;
    end if;
end
$$;
