-- The time of the topic now, and how many tokens a key has pushed in all versions. Index: correlation_once.
select coalesce(headrace.log_clock(c.topic_id), headrace.clock()), (
    select count(*) from headrace.correlation f
    where f.key = %(key)s and f.version_id in (
        select v.version_id from headrace.correlator_version v where v.correlator_id = %(correlator_id)s))
from headrace.correlator c where c.correlator_id = %(correlator_id)s;
