-- The time now, and how many tokens a key has pushed in all versions. Index: correlation_once.
select headrace.clock(), (
    select count(*) from headrace.correlation f
    where f.key = %(key)s and f.version_id in (
        select v.version_id from headrace.correlator_version v where v.correlator_id = %(correlator_id)s));
