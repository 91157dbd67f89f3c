-- Ends rules in their topic: adds a version after the given one that says "dropped". Rules that are dropped with their topic leave
-- no version. Index: rule_version_unique.
create or replace function headrace_internal.end_rules(p_rule_ids integer[], p_versions integer[]) returns void
language sql volatile
as $$
    insert into headrace_internal.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action,
        priority, delay_s, timing, active, dropped)
    select v.rule_id, v.version + 1, v.namespace, v.rule, v.topic_id, v.event_type, v.condition, v.action,
        v.priority, v.delay_s, v.timing, false, true
    from unnest(p_rule_ids, p_versions) e (rule_id, version)
    join headrace_internal.rule_version v on v.rule_id = e.rule_id and v.version = e.version
    join headrace_internal.topic t on t.topic_id = v.topic_id
    order by v.rule_id
$$;
