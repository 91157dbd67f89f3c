-- What a correlator has pushed, in order: a timer's before the event's that it was due by. Index: correlation_once.
select f.position, f.output_at, f.token, f.captured::text
from headrace_internal.correlation f
where f.version_id = %(version_id)s
order by f.output_at, f.position nulls first, f.place;
