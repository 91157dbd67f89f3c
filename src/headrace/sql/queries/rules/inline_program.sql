with event as materialized (
    select p.id, p.event_id, p.type, p.key, p.payload, p.headers, p.emitted_at{fields}
    from published p
    where p.topic_id = {topic_id}
)
    {branches}
