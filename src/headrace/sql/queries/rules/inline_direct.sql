select e.id, e.event_id, d.version_id
    from event e
    cross join lateral unnest(array_remove(case {cases} end, null)) d (version_id)
