select e.position, m.version_id
    from event e
    join headrace.rule_match m on m.shape_id = {shape_id} and m.event_type = e.type and m.key = {key}
    where m.since_position <= e.position and {rest}
