with event as materialized (
    select l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer, l.headers{fields}
    from headrace_internal.{log} l
    where l.position > $1 and l.position <= $2
)
    {branches}
