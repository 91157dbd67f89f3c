select e.id, e.event_id, m.version_id
    from event e
    cross join lateral (
        select m.version_id, m.integers, m.numerics, m.texts, m.moments
        from headrace_internal.rule_match m
        where m.shape_id = {shape_id} and m.event_type = e.type and {lookup}
        offset 0
    ) m
    where {rest}
