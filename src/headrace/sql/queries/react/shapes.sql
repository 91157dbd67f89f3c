-- The shapes in force of a topic (or, for inline, of all), each with the condition of one of its versions. Index: rule_match_access.
select s.shape_id, s.topic_id, c.canonical
from headrace.rule_shape s
cross join lateral (
    select v.canonical
    from headrace.rule_match m
    join headrace.rule_version v on v.version_id = m.version_id
    where m.shape_id = s.shape_id
    limit 1
) c
where s.timing = %(timing)s and (%(topic_id)s::integer is null or s.topic_id = %(topic_id)s)
order by s.shape_id;
