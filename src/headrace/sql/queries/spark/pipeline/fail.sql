-- Records that a consumer's next event failed: it is tried again after a growing pause. Index: cursor_pkey.
select headrace.fail(u.consumer_id, -1, u.position, u.position + 1, 1, %(error)s)
from headrace_internal.cursor u
where u.consumer_id = %(consumer_id)s and u.partition = -1 and u.position = %(position)s;
