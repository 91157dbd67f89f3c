select e.topic_id, e.id, row(m.version_id, null, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.producer)::headrace_internal.rule_hit
            from event e
            cross join lateral (
                select m.version_id, m.integers, m.numerics, m.texts, m.moments
                from headrace_internal.rule_match m
                where m.shape_id = {shape_id} and m.event_type = e.type and m.key = {key}
                offset 0
            ) m
            where e.topic_id = {topic_id} and {rest}
