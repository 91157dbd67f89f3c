begin
    -- Each field is extracted once per event. One join per shape with many rules finds candidates by event type and key and
    -- evaluates the residual with their constants. Rules of rare shapes are compared one by one: cheaper than a lookup.
    return query
    with event as materialized (
        select l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer{fields}
        from headrace_internal.{log} l
        where l.position > p_after and l.position <= p_upto
    )
    {branches};
end
