-- Sets whether a topic's retention waits for the archive. Locks: the topic row.
create or replace function headrace.keep_until_archived(
    p_topic text, p_archive boolean, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
begin
    update headrace_internal.topic t set archive = p_archive where t.topic_id = headrace.topic_id(p_topic, v_namespace);
end
$$;
