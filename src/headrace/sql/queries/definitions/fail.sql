-- Records that the batch right after a reserved consumer's cursor failed. Indexes: cursor_pkey, log_position.
select headrace.fail(u.consumer_id, u.partition, u.position, d.upto, d.events, %(error)s)
from headrace.cursor u
cross join lateral (
    select max(l.position) as upto, count(*)::integer as events
    from (
        select l.position from headrace.log l
        where l.topic_id = %(topic_id)s and l.position > u.position
        order by l.position limit case when u.single_to > u.position then 1 else %(max)s end
    ) l
) d
where u.consumer_id = %(consumer_id)s and u.partition = -1;
