-- Locks a topic and every topic that its events reach as outputs of correlators, outputs of outputs included, also by versions that have
-- ended: from here on none of their events moves from the outbox to the log.
-- Locks: the topic rows, no key update, in the order of their ids, so that two erasures do not wait for each other; sequencers skip them.
create or replace function headrace_internal.lock_with_outputs(p_topic_id integer) returns void
language plpgsql volatile
as $$
begin
    perform from headrace_internal.topic t
    where t.topic_id in (
        with recursive reached (topic_id) as (
            values (p_topic_id)
            union
            select o.topic_id
            from reached r
            join headrace_internal.correlator_version v on v.topic_id = r.topic_id
            cross join lateral jsonb_each(v.outputs) e (token, output)
            join headrace_internal.topic o on o.namespace = v.namespace and o.topic = e.output ->> 'topic')
        select r.topic_id from reached r)
    order by t.topic_id for no key update;
end
$$;
