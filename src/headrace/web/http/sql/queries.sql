-- name: access_tokens
-- Selects the access tokens of a namespace, those in use first.
select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.created_at, t.created_by, t.expires_at,
    t.last_used_at, t.revoked_at
from headrace.access_token t
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.revoked_at is not null, t.name, t.token_id;

-- name: hooks
-- Selects the hooks of a namespace, or the one with a name.
select h.hook_id, h.namespace, h.hook, h.topic, h.scheme, h.secrets, h.mapping, h.window_s, h.active, h.created_at, h.created_by
from headrace.hook h
where h.namespace = headrace.current_namespace(%(namespace)s) and (%(hook)s::text is null or h.hook = %(hook)s)
order by h.hook;

-- name: read_events
-- Events of a topic after a position, in order, whose type fits one of the patterns and whose key is the given one, with JSON as
-- text so that no digit is lost. Every row has the oldest and the newest position of the log, and how many events there were before
-- the limit of bytes; without events there is one row. Index: log_position. A rare type reads a limited number of rows.
select h.oldest, h.newest, e.events, {stored e as text}
from (
    -- Call functions: an order by position does not pass through the view of the log to its index.
    select case when l.position is not null then t.dropped_to + 1 end as oldest, l.position as newest
    from (select %(topic_id)s::integer as topic_id) w
    left join headrace.topic t on t.topic_id = w.topic_id
    left join lateral headrace.log_head(w.topic_id) l on true
) h
left join lateral (
    select {stored p},
        count(*) over () as events,
        -- Add up the stored sizes, which are known without reading the payload. The first event always fits.
        coalesce(sum(pg_column_size(p.payload)) over (order by p.position rows between unbounded preceding and 1 preceding), 0) as bytes_before
    from (
        select {stored l}
        -- The same snapshot as above: nothing newer is visible.
        from headrace.read_log(%(topic_id)s, %(after)s,
            case when %(types)s::text[] is null and %(granted_types)s::text[] is null and %(key)s::text is null
                then %(limit)s else %(scan)s end) l
        where (%(types)s::text[] is null or l.type like any (%(types)s::text[]))
            and (%(granted_types)s::text[] is null or l.type like any (%(granted_types)s::text[]))
            and (%(key)s::text is null or l.key = %(key)s)
        order by l.position
        limit %(limit)s
    ) p
) e on e.bytes_before < %(bytes)s
order by e.position;
