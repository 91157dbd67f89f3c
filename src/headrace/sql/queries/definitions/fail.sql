-- Records that the batch right after a reserved consumer's cursor failed. Index: cursor_pkey.
select headrace.fail(u.consumer_id, u.partition, u.position, d.upto, d.events, %(error)s)
from headrace.cursor u
cross join lateral headrace_internal.batch_end(u.consumer_id, %(topic_id)s, -1, u.position,
    case when u.single_to > u.position then 1 else %(max)s end) d
where u.consumer_id = %(consumer_id)s and u.partition = -1;
