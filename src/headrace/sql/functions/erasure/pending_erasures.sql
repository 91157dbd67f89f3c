-- Erasures that still have to be done in files of a topic's archive. Takes the level admin. Index: erasure_pending_topic.
create or replace function headrace.pending_erasures(p_topic_id integer, p_caller headrace_internal.caller default current_user)
returns table (erasure_id bigint, event_ids uuid[])
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    return query
    select p.erasure_id, p.event_ids
    from headrace_internal.erasure_pending p
    where p.topic_id = p_topic_id
    order by p.erasure_id;
end
$$;
