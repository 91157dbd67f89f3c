-- Says whether a topic's retention waits for the archive. Locks: the topic row.
create or replace function headrace.keep_until_archived(p_topic text, p_archive boolean, p_namespace text default null) returns void
language plpgsql volatile
as $$
begin
    update headrace.topic t set archive = p_archive where t.topic_id = headrace_internal.topic_id(p_topic, p_namespace);
end
$$;
