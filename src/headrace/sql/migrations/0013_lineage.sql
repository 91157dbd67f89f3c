-- Lineage goes with its events: it is found by position, and by time where a timer has none. Firings without a position, which come
-- last in the index, need none of their own.
create index firing_position on headrace.firing (topic_id, position);
drop index headrace.firing_without_position;
create index correlation_timer on headrace.correlation (topic_id, output_at) where position is null;
