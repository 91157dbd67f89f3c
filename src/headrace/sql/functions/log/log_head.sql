-- The newest position of a topic's log and its time; no row for an empty log. Index: log_position, backwards.
-- Read from the log itself: a row updated with every batch would bloat while a snapshot is held.
create or replace function headrace.log_head(p_topic_id integer) returns table ("position" bigint, appended_at timestamptz)
language sql stable
as $$
    select l.position, l.appended_at from headrace.log l where l.topic_id = p_topic_id order by l.position desc limit 1
$$;
