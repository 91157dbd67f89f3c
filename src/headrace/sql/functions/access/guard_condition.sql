-- The condition under which the current role holds a level on a row, by the column that leads to the namespace.
-- The functions are in FROM, where PostgreSQL inlines them into the statement's cached plan.
create or replace function headrace_internal.guard_condition(p_owned_by text, p_level text) returns text
language sql immutable
as $$
    select format(case p_owned_by
        when 'namespace' then 'namespace in (select g.namespace from headrace_internal.granted(%1$L) g (namespace))'
        when 'topic' then 'topic_id in (select g.topic_id from headrace_internal.granted_topics(%1$L) g (topic_id))'
        when 'consumer' then 'consumer_id in (select c.consumer_id from headrace.consumer c'
            ' join headrace_internal.granted_topics(%1$L) g (topic_id) on g.topic_id = c.topic_id)'
        when 'correlator' then 'correlator_id in (select c.correlator_id from headrace.correlator c'
            ' join headrace_internal.granted(%1$L) g (namespace) on g.namespace = c.namespace)'
        when 'schedule' then 'schedule_id in (select s.schedule_id from headrace.schedule s'
            ' join headrace_internal.granted(%1$L) g (namespace) on g.namespace = s.namespace)' end, p_level)
$$;
