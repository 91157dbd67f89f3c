-- The consumers of a namespace that may have something to do now, and (with consumer_id null) the topics whose log grew in the last
-- seconds: see headrace_internal.find_due. topics changes when a topic of the namespace is created or dropped; there is always one row
-- with it. A node asks once a second while something is due or logs grow, and every ten seconds after a
-- quiet time, for all its consumers, which otherwise sleep until they are notified.
create or replace function headrace.due_consumers(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns table (topic_id integer, consumer_id bigint, topics text)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    return query
    select null::integer, null::bigint, count(*) || ' ' || coalesce(max(t.topic_id), 0)
    from headrace_internal.topic t where t.namespace = v_namespace;
    return query
    select d.topic_id, d.consumer_id, null::text from headrace_internal.find_due(v_namespace) d;
end
$$;
