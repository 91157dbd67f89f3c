-- The time of a topic's log: the server's clock, or, where events bring their own, that of the newest one.
-- Index: log_position backwards, for a topic of the second kind.
create or replace function headrace.log_clock(
    p_topic_id integer, p_caller headrace_internal.caller default current_user
) returns timestamptz
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return (
        select case when t.clock = 'server' then headrace.clock()
            else (select h.appended_at from headrace.log_head(t.topic_id) h) end
        from headrace_internal.topic t where t.topic_id = p_topic_id);
end
$$;
