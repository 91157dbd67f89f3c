begin
    -- Every field is taken out of an event once. One join per shape with many rules finds the candidates by event type and key, and
    -- compares the rest with their constants. Rules of rare shapes stand here one by one: a comparison is cheaper than a probe.
    return query
    with event as materialized (
        select l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer{fields}
        from headrace_internal.{log} l
        where l.position > p_after and l.position <= p_upto
    )
    {branches};
end
