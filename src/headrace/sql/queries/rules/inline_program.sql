with event as materialized (
    select p.id, p.event_id, p.type{fields}
    from published p
    where p.topic_id = {topic_id}
)
    {branches}
