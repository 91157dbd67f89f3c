select e.topic_id, e.id, row(d.version_id, null, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.producer)::headrace_internal.rule_hit
            from event e
            cross join lateral unnest(array_remove(case {cases} end, null)) d (version_id)
