-- The newest position of a topic's log and its time; no row for an empty log. Index: log_position, backwards.
-- Read off the log itself: a row that is updated with every batch would bloat under a held snapshot.
create or replace function headrace.log_head(p_topic_id integer) returns table ("position" bigint, appended_at timestamptz)
language sql stable
as $$
    select l.position, l.appended_at from headrace.log l where l.topic_id = p_topic_id order by l.position desc limit 1
$$;

-- The time of a topic's log: the server's clock, or, where events bring their own, that of the newest one.
-- Index: log_position backwards, for a topic of the second kind.
create or replace function headrace.log_clock(p_topic_id integer) returns timestamptz
language sql stable
as $$
    select case when t.clock = 'server' then headrace.clock()
        else (select h.appended_at from headrace.log_head(t.topic_id) h) end
    from headrace.topic t where t.topic_id = p_topic_id
$$;
