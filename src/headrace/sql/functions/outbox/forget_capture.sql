-- Deletes the record of a table's captures, into one topic or into all topics of the namespace, and returns the topics;
-- headrace.release_capture calls it and drops the triggers. Takes the level admin.
create or replace function headrace.forget_capture(
    p_table regclass, p_topic_id integer, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns setof integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    return query
        delete from headrace_internal.capture c
        using headrace_internal.topic t
        where c.captured = p_table and t.topic_id = c.topic_id and t.namespace = v_namespace
            and c.topic_id = coalesce(p_topic_id, c.topic_id)
        returning c.topic_id;
end
$$;
