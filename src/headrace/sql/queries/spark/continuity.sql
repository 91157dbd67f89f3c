-- The events at some positions, one per topic, with what tells whether the log is still the same: the epoch, and whether this server
-- is a replica, which may lag. One row for a topic whose log does not have the position, too. Index: log_position.
select p.topic_id, l.event_id::text, headrace.log_epoch() as epoch, pg_is_in_recovery() as is_replica
from unnest(%(topic_ids)s::integer[], %(positions)s::bigint[]) p (topic_id, "position")
left join lateral (
    -- The limit makes this a look-up per row of p: joined as a whole, the log would be read from end to end.
    select l.event_id from headrace.log l where l.topic_id = p.topic_id and l.position = p.position limit 1
) l on true;
