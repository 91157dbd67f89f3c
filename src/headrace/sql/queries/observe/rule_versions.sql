-- The rule versions that were active at a position; for an event without a position, the ones active now. Index: rule_version_in_force.
select v.rule, v.version, v.event_type, v.condition, v.timing
from headrace.rule_version v
where v.topic_id = %(topic_id)s and v.since_position is not null
    and case when %(position)s::bigint is null then v.until_position is null
        else v.since_position <= %(position)s and (v.until_position is null or v.until_position >= %(position)s) end
order by v.rule, v.version;
