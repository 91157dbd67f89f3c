-- The active rules of a topic that run after the log. Indexes: rule_version_in_force, rule_match_pkey.
select m.version_id::text as name, v.event_type, v.canonical as condition, v.action, m.since_position as since_offset
from headrace_internal.rule_version v
join headrace_internal.rule_match m on m.version_id = v.version_id and m.key_number = 1
where v.topic_id = %(topic_id)s and v.since_position is not null and v.timing = 'after'
order by m.version_id;
