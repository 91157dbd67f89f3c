select m.version_id, e.position, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.producer, e.headers
    from event e
    cross join lateral (
        select m.version_id, m.since_position, m.integers, m.numerics, m.texts, m.moments
        from headrace_internal.rule_match m
        where m.shape_id = {shape_id} and m.event_type = e.type and {lookup}
        offset 0
    ) m
    where m.since_position <= e.position and {rest}
