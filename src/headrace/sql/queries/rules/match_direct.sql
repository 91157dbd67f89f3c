select d.version_id, e.position, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.producer, e.headers
    from event e
    cross join lateral unnest(array_remove(case {cases} end, null)) d (version_id)
