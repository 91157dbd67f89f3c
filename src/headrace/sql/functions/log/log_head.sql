-- The newest position of a topic's log and its time; no row for an empty log. Index: log_position, backwards.
-- Read off the log itself: a row that is updated with every batch would bloat under a held snapshot.
create or replace function headrace_internal.log_head(p_topic_id integer) returns table ("position" bigint, appended_at timestamptz)
language sql stable
as $$
    select l.position, l.appended_at from headrace_internal.log l where l.topic_id = p_topic_id order by l.position desc limit 1
$$;
