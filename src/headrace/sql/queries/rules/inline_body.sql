declare
    v_topic_id integer;
    v_hits     headrace_internal.rule_hit[];
begin
    -- In chunks of 500: an array holds at most 1 GB, and a payload may have 1 MB.
    for v_topic_id, v_hits in
        with event as materialized (
            select p.topic_id, p.id, p.event_id, p.type, p.key, p.payload, p.emitted_at, p.producer{fields}
            from published p
            where p.topic_id in ({topics})
        ), found (topic_id, id, hit) as (
            {branches}
        )
        select f.topic_id, array_agg(f.hit order by f.n)
        from (
            select f.topic_id, f.hit, row_number() over (order by f.topic_id, f.id) as n
            from found f
            -- An event that is in the log already was published again: it is not a new event.
            where not exists (select from headrace_internal.log l where l.topic_id = f.topic_id and l.event_id = (f.hit).event_id)
        ) f
        group by f.topic_id, f.n / 500
    loop
        perform headrace_internal.fire(v_topic_id, v_hits);
    end loop;
    return null;
end
