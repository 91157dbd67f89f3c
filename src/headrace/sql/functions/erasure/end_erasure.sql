-- Records that an erasure is done in the files of a topic's archive, with the number of events in them. Takes the level admin.
create or replace function headrace.end_erasure(
    p_erasure_id bigint, p_topic_id integer, p_events bigint, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    delete from headrace_internal.erasure_pending p where p.erasure_id = p_erasure_id and p.topic_id = p_topic_id;
    if found then
        perform headrace_internal.count_erased(p_erasure_id, 'archive', p_events);
    end if;
end
$$;
