-- Outbox: committed events that have no position yet. Publishers insert, the sequencer deletes.
-- Partitioned by a slot of the clock: rows go to the slot of the current 4 seconds, so an older slot can be truncated
-- once it is empty. A snapshot held anywhere in the cluster therefore cannot bloat the outbox.
-- No constraints except not null: PostgreSQL parses a constraint's expression again for every statement (14 µs measured),
-- so headrace.publish and the library check an event before, and nobody but the owner may insert.
-- Each slot has its own index outbox_<slot>_order, called outbox_order elsewhere. It is unique so that it can be the replica identity:
-- without one, a publication of all tables stops the sequencer; with `full`, wal_level = logical writes every event once more.
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

create table headrace_internal.outbox_0 partition of headrace_internal.outbox for values in (0);
create unique index outbox_0_order on headrace_internal.outbox_0 (topic_id, id);
alter table headrace_internal.outbox_0 replica identity using index outbox_0_order;

create table headrace_internal.outbox_1 partition of headrace_internal.outbox for values in (1);
create unique index outbox_1_order on headrace_internal.outbox_1 (topic_id, id);
alter table headrace_internal.outbox_1 replica identity using index outbox_1_order;

create table headrace_internal.outbox_2 partition of headrace_internal.outbox for values in (2);
create unique index outbox_2_order on headrace_internal.outbox_2 (topic_id, id);
alter table headrace_internal.outbox_2 replica identity using index outbox_2_order;

create table headrace_internal.outbox_3 partition of headrace_internal.outbox for values in (3);
create unique index outbox_3_order on headrace_internal.outbox_3 (topic_id, id);
alter table headrace_internal.outbox_3 replica identity using index outbox_3_order;
