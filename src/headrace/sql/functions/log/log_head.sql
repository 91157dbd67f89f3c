-- The newest position of a topic's log and its time; no row for an empty log. Index: log_position, backwards.
-- Read from the log itself: a row updated with every batch would bloat while a snapshot is held.
create or replace function headrace.log_head(
    p_topic_id integer, p_caller headrace_internal.caller default current_user) returns table ("position" bigint, appended_at timestamptz
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return query select l.position, l.appended_at from headrace_internal.log l where l.topic_id = p_topic_id order by l.position desc limit 1;
end
$$;
