-- name: inline_program
with event as materialized (
    select p.id, p.event_id, p.type, p.key, p.payload, p.headers, p.emitted_at{fields}
    from published p
    where p.topic_id = {topic_id}
)
    {branches}

-- name: match_direct
select d.version_id, {columns}
    from event e
    cross join lateral unnest(array_remove(case {cases} end, null)) d (version_id)

-- name: match_join
select m.version_id, {columns}
    from event e
    cross join lateral (
        select m.version_id, m.since_position, m.integers, m.numerics, m.texts, m.moments
        from headrace_internal.rule_match m
        where m.shape_id = {shape_id} and m.event_type = e.type and {lookup}
        offset 0
    ) m
    where {since}{rest}

-- name: match_program
with event as materialized (
    select l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer, l.headers{fields}
    from headrace_internal.{log} l
    where l.position > $1 and l.position <= $2
)
    {branches}

-- name: pending_topics
-- Topics with rules to compile, and topics that kept their consumer without rules because a transaction was open when the last rule
-- went; except those whose compilation has failed and pauses. Indexes: rule_version_pending, rule_topic.
select t.topic_id, t.namespace, t.topic
from headrace_internal.topic t
where t.topic_id in (
        select v.topic_id from headrace_internal.rule_version v where v.status = 'pending'
        union
        select c.topic_id from headrace_internal.consumer c
        -- Do not use "not exists": as a join it would read all rules.
        where c.consumer = 'headrace.rules'
            and (select r.rule_id from headrace_internal.rule r where r.topic_id = c.topic_id limit 1) is null)
    and not exists (select from headrace_internal.failure f
        where f.kind = 'rule compilation' and f.namespace = t.namespace and f.name = t.topic and f.retry_at > headrace.clock())
order by t.topic_id;

-- name: pending_versions
-- Selects a topic's versions to compile, oldest first. Index: rule_version_pending.
select v.version_id, v.condition, v.dropped
from headrace_internal.rule_version v
where v.topic_id = %(topic_id)s and v.status = 'pending'
order by v.version_id
limit %(limit)s;

-- name: remove_program
-- Removes a program of a topic's rules; no row if there is none. In the transaction that began the compilation.
delete from headrace_internal.rule_program p where p.topic_id = %(topic_id)s and p.kind = %(kind)s returning p.kind;

-- name: sample
-- Creates a table of events for the condition tester; dropped at the end of the transaction.
create temporary table sample (
    number     integer,
    type       text,
    key        text,
    headers    jsonb,
    payload    jsonb,
    emitted_at timestamptz
) on commit drop;

-- name: shapes
-- Selects the active shapes of a topic, each with at most `limit` of its versions. Index: rule_match_access.
select s.shape_id, s.topic_id, s.variants, m.version_id, m.since_position, m.event_type, m.canonical
from headrace_internal.rule_shape s
cross join lateral (
    select m.version_id, m.since_position, m.event_type, v.canonical
    from headrace_internal.rule_match m
    join headrace_internal.rule_version v on v.version_id = m.version_id
    where m.shape_id = s.shape_id and m.key_number = 1
    limit %(limit)s
) m
where s.timing = %(timing)s and s.topic_id = %(topic_id)s
order by s.shape_id, m.version_id;

-- name: watched_topics
-- Selects the topics with rules, and the reserved consumer of each.
select c.topic_id, c.consumer_id, t.topic, t.namespace
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
where c.consumer = 'headrace.rules'
order by c.topic_id;

-- name: write_program
-- Writes a program of a topic's rules; no row if it is the same. In the transaction that began the compilation. Index: rule_program_pkey.
insert into headrace_internal.rule_program as p (topic_id, kind, checksum, program, integers, numerics, texts, moments)
values (%(topic_id)s, %(kind)s, %(checksum)s, %(program)s, %(integers)s::bigint[], %(numerics)s::numeric[], %(texts)s::text[],
    %(moments)s::timestamptz[])
on conflict on constraint rule_program_pkey do update
set checksum = excluded.checksum, program = excluded.program, integers = excluded.integers, numerics = excluded.numerics,
    texts = excluded.texts, moments = excluded.moments
where p.checksum <> excluded.checksum
returning p.kind;
