-- name: catalog
-- Selects the archived files of a namespace, or of one topic. Index: archive_position.
select a.topic_id, t.topic, a.day, a.first_position, a.last_position, a.first_at, a.last_at, a.events, a.checksum::text as checksum,
    a.folder, a.file, a.file_bytes, a.archived_at, a.archived_by, a.first_position > t.dropped_to as in_log
from headrace.archive a
join headrace.topic t on t.topic_id = a.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
order by t.topic, a.first_position;

-- name: closed_partitions
-- Selects the closed time partitions of a topic that ended before a time, and whether the archive holds them. Nothing is written to them
-- any more: the server's time is past their end by more than a sequencer needs; or, if the log's time is that of the events, the
-- newest event is past it. Index: log_position in each partition, backwards for the newest event.
select p.name::text as name, p.from_at, p.to_at, coalesce(e.events, 0) as events,
    headrace.is_archived(t.topic_id, e.first_position, e.last_position) as archived
from headrace.topic t
cross join lateral headrace.time_partitions(t.topic_id) p
cross join lateral (
    select max(l.position) - min(l.position) + 1 as events, min(l.position) as first_position, max(l.position) as last_position
    from headrace.log l
    where l.topic_id = t.topic_id and l.appended_at >= p.from_at and l.appended_at < p.to_at
) e
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
    and p.to_at <= coalesce(%(before)s, headrace.clock())
    and p.to_at <= case when t.clock = 'server' then headrace.clock() - interval '1 minute'
        else (select h.appended_at from headrace.log_head(t.topic_id) h) end
order by p.from_at;

-- name: days
-- Selects a time partition by day: positions, times, number of events, and a checksum that the file must have too.
-- The hashed text of a row is unambiguous: free text is preceded by its length in characters, and - means null.
select (l.appended_at at time zone 'UTC')::date as day, min(l.position) as first_position, max(l.position) as last_position,
    min(l.appended_at) as first_at, max(l.appended_at) as last_at, count(*) as events,
    sum(('x' || left(encode(sha256(convert_to(concat_ws(' ',
        l.position, (extract(epoch from l.appended_at) * 1000000)::bigint, (extract(epoch from l.emitted_at) * 1000000)::bigint,
        l.partition, l.event_id, l.type, coalesce(length(l.key) || ':' || l.key, '-'),
        coalesce(length(l.producer) || ':' || l.producer, '-'), length(l.headers::text) || ':' || l.headers::text, l.payload::text
        ), 'UTF8')), 'hex'), 15))::bit(60)::bigint)::text as checksum
from headrace.log l
where l.topic_id = %(topic_id)s and l.appended_at >= %(from_at)s and l.appended_at < %(to_at)s
group by 1
order by 1;

-- name: erasures
-- Erasures, newest first: one by its id, or those of a namespace, or of one topic. Index: erasure_pkey.
select e.erasure_id, e.topic, e.fields, e.new_key, e.erased_by, e.erased_at, e.row_counts, e.archives_pending, e.tables_pending
from headrace.erasure e
where (%(erasure_id)s::bigint is null or e.erasure_id = %(erasure_id)s)
    and e.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or e.topic = %(topic)s)
order by e.erasure_id desc;

-- name: events
-- Events of a range of the log in the order of positions, asc or desc ({direction}), with JSON as text so that no digit is lost.
-- Index: log_position.
select {stored l as text}
from headrace.log l
where l.topic_id = %(topic_id)s and l.position >= %(first)s and l.position < %(until)s
    and (%(types)s::text[] is null or l.type = any (%(types)s::text[]))
    and (%(keys)s::text[] is null or l.key = any (%(keys)s::text[]))
order by l.position {direction}
limit %(limit)s;

-- name: events_at
-- Events of the log at some positions, with JSON as text. Index: log_position.
select {stored l as text}
from headrace.log l
where l.topic_id = %(topic_id)s and l.position = any (%(positions)s::bigint[]);

-- name: file_at
-- Selects the first file with events before the start of the log that has an event at a time or later. Index: archive_position.
select a.first_position, a.last_position + 1 as until, a.folder, a.file
from headrace.archive a
join headrace.topic t on t.topic_id = a.topic_id
where a.topic_id = %(topic_id)s and a.last_at >= %(at)s and a.first_position <= t.dropped_to
order by a.first_position
limit 1;

-- name: file_rows
-- Selects the rows of one file, in order. Values are written into the text, because ADBC uses binary COPY only without parameters.
-- Index: log_position.
select {stored l}
from headrace.log l
where l.topic_id = {topic_id} and l.appended_at >= {first_at}::timestamptz and l.appended_at <= {last_at}::timestamptz
    and l.position >= {first} and l.position <= {last}
order by l.position

-- name: files
-- Selects the files with a range of positions of a topic, in order. Index: archive_position.
select a.first_position, a.last_position + 1 as until, a.folder, a.file
from headrace.archive a
where a.topic_id = {topic_id} and a.first_position < {until} and a.last_position >= {first}
order by a.first_position

-- name: iceberg_table
-- Selects the entry of a topic in the tables of Iceberg's SQL catalog, if it has one. Index: iceberg_tables_pkey.
select t.metadata_location
from headrace_iceberg.iceberg_tables t
where t.catalog_name = %(catalog)s and t.table_namespace = %(namespace)s and t.table_name = %(topic)s;

-- name: range
-- Selects the range of one topic: the first position in archive or log, the next position to be written, and the first in the log.
-- Indexes: topic_pkey, log_position backwards, archive_position.
select t.topic_id, t.topic, coalesce(headrace.archived_from(t.topic_id, t.dropped_to), t.dropped_to + 1) as first,
    coalesce(h.position, t.dropped_to) + 1 as until, t.dropped_to + 1 as log_first
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s);

-- name: vacuum_rights
-- Tables by name, in the order of the names, and whether this role may vacuum each: it owns it or, from PostgreSQL 17 on, has MAINTAIN.
select t.name, c.oid::bigint, n.nspname, c.relname,
    pg_catalog.pg_has_role(c.relowner, 'usage') or case when pg_catalog.current_setting('server_version_num')::int >= 170000
        then pg_catalog.has_table_privilege(c.oid, 'MAINTAIN') else false end
from pg_catalog.unnest(%(tables)s::text[]) with ordinality t (name, number)
cross join lateral pg_catalog.parse_ident(t.name) p (parts)
join pg_catalog.pg_namespace n on n.nspname = p.parts[1]
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = p.parts[2]
order by t.number;
