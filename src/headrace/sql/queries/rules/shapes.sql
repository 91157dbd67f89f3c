-- The active shapes of a topic, each with at most `limit` of its versions. Index: rule_match_access.
select s.shape_id, s.topic_id, s.variants, m.version_id, m.since_position, m.event_type, m.canonical
from headrace_internal.rule_shape s
cross join lateral (
    select m.version_id, m.since_position, m.event_type, v.canonical
    from headrace_internal.rule_match m
    join headrace_internal.rule_version v on v.version_id = m.version_id
    where m.shape_id = s.shape_id and m.key_number = 1
    limit %(limit)s
) m
where s.timing = %(timing)s and s.topic_id = %(topic_id)s
order by s.shape_id, m.version_id;
