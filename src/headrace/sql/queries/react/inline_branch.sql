select e.topic_id, e.id, row(m.version_id, null, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.producer)::headrace.rule_hit
            from event e
            join headrace.rule_match m on m.shape_id = {shape_id} and m.event_type = e.type and m.key = {key}
            where e.topic_id = {topic_id} and {rest}
