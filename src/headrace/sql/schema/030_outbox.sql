-- Outbox: committed events that have no position yet. Publishers insert, the sequencer deletes.
-- Partitioned by a slot of the clock: rows go to the slot of the current 4 seconds, so an older slot can be truncated
-- once it is empty. A snapshot held anywhere in the cluster therefore cannot bloat the outbox.
-- No constraints except not null: PostgreSQL parses a constraint's expression again for every statement (14 µs measured),
-- so headrace.publish and the library check an event before, and nobody but the owner may insert.
create sequence headrace_internal.outbox_id_seq as bigint;

create table headrace_internal.outbox (
    -- Assigned in order, committed out of order: it orders the events of one producer, and must never be a cursor.
    id         bigint      not null default nextval('headrace_internal.outbox_id_seq'),
    emitted_at timestamptz not null default headrace.clock(),
    topic_id   integer     not null,
    slot       smallint    not null default headrace_internal.outbox_slot(),
    event_id   uuid        not null default headrace.uuid_v7(),
    type       text        not null,
    key        text,
    payload    jsonb       not null,
    headers    jsonb       not null default '{}',
    producer   text
) partition by list (slot);
create index outbox_order on headrace_internal.outbox (topic_id, id);

create table headrace_internal.outbox_0 partition of headrace_internal.outbox for values in (0);

create table headrace_internal.outbox_1 partition of headrace_internal.outbox for values in (1);

create table headrace_internal.outbox_2 partition of headrace_internal.outbox for values in (2);

create table headrace_internal.outbox_3 partition of headrace_internal.outbox for values in (3);
